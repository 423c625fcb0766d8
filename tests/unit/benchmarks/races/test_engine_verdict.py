"""When one engine's stacks count as worse than the other's."""

from benchmarks.races.engine_verdict import worse


def test_worse_is_below_for_the_elbo_and_above_for_errors():
    equal = {"mmtv": [0.2, 0.1, 0.3], "gskl": [0.2, 0.1, 0.3], "delta_lml": [0.2, 0.1, 0.3]}
    theirs = {"stacks": {"own": equal | {"true_elbo": [-0.2, -0.3, -0.1]}}}
    ours = {"stacks": {"pooled": equal | {"true_elbo": [-0.5, -0.6, -0.4], "mmtv": [0.25, 0, 1]}}}
    assert worse(ours, theirs, "pooled") == {"true_elbo": True, "mmtv": False}
    better = {"stacks": {"pooled": equal | {"true_elbo": [-0.1, -0.2, 0.0]}}}
    assert worse(better, theirs, "pooled") == {}
