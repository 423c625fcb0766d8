"""A store knows its log density: a changed one is refused, the same one goes on, in real life."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vbstack import Problem, RunStore, Screen, StoreMismatch, TooFewRuns, fit, launch
from vbstack.problem import Evaluation
from vbstack.runs.journal import Journal
from vbstack.runs.store import RunState

SCRIPT = '''
import sys
import numpy as np
from vbstack import Problem, launch

SCALE = 2.0
DATA = np.array([0.1, 0.4])


def helper(x):
    return float(np.sum((x - DATA[0]) ** 2))


def make(width):
    def log_density(x, shift, power=1):
        """A docstring."""
        return -0.5 * helper(x) / SCALE / width + shift * power * 3.0  # a comment

    return log_density


def prior(x):
    return -0.1 * float(x[0] ** 2)


problem = Problem(
    log_density=make(1.5),
    plausible_lower_bounds=[-2.0],
    plausible_upper_bounds=[2.0],
    args=(0.25,),
    kwargs={"power": 2},
    log_prior=prior,
)
if __name__ == "__main__":
    runs = launch(
        problem,
        int(sys.argv[1]),
        store="store",
        seed=1,
        options={"max_fun_evals": 12, "final_components": 2},
        executor="here",
    )
    print(len(runs), "runs")
'''

CHANGES = {
    "the same": ("", "", ""),
    "a comment": ("# a comment", "# another comment, which is longer", ""),
    "a docstring": ('"""A docstring."""', '"""Another docstring.\n\n        Longer."""', ""),
    "lines above": ("SCALE = 2.0", "\n\n\nSCALE = 2.0", ""),
    "a constant": ("* 3.0", "* 3.5", "log_density: code differs"),
    "a global": ("SCALE = 2.0", "SCALE = 2.5", "global 'SCALE' differs"),
    "an array": ("[0.1, 0.4]", "[0.2, 0.4]", "global 'DATA' differs"),
    "a closure": ("make(1.5)", "make(1.75)", "closure variable 'width' differs"),
    "an argument": ("(0.25,)", "(0.5,)", r"args\[0\] differs"),
    "a keyword": ('"power": 2', '"power": 3', r"kwargs\['power'\] differs"),
    "the prior": ("-0.1 *", "-0.2 *", "log_prior: code differs"),
    "a helper": ("** 2))", "** 4))", "function 'helper': code differs"),
}


def run_script(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "model.py").write_text(text)
    command = arguments[0].startswith("-m") if arguments else False
    return subprocess.run(
        [sys.executable, "-B", *(arguments if command else ("model.py", *arguments))],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


@pytest.mark.parametrize("change", CHANGES)
def test_a_script_that_is_run_again_goes_on_or_is_refused(tmp_path, change):
    old, new, difference = CHANGES[change]
    assert old in SCRIPT
    first = run_script(tmp_path, SCRIPT, "1")
    assert first.returncode == 0, first.stderr
    plan = (tmp_path / "store" / "store.json").read_bytes()
    second = run_script(tmp_path, SCRIPT.replace(old, new) if old else SCRIPT, "2")
    if difference:
        assert "StoreMismatch" in second.stderr
        assert_matches(difference, second.stderr)
        assert "in the store" in second.stderr  # a value that shows it
        assert "fresh=True (--fresh)" in second.stderr
        assert "trust_store=True" in second.stderr
        assert (tmp_path / "store" / "store.json").read_bytes() == plan
        assert list(RunStore(tmp_path / "store").runs()) == [0]
    else:
        assert "2 runs" in second.stdout, second.stderr
        assert "uses other values" not in second.stderr


def assert_matches(pattern, text):
    assert re.search(pattern, text), text


def test_the_command_line_refuses_begins_afresh_or_trusts(tmp_path):
    command = ["-m", "vbstack", "fit", "model.py:problem", "--out", "store", "--runs", "1"]
    command += ["--executor", "here", "--option", "max_fun_evals=60"]
    changed = SCRIPT.replace("* 3.0", "* 3.25")
    assert run_script(tmp_path, SCRIPT, *command).returncode == 0
    again = run_script(tmp_path, SCRIPT, *command)
    assert again.returncode == 0, again.stderr
    refused = run_script(tmp_path, changed, *command)
    assert refused.returncode == 1
    assert "log_density: code differs" in refused.stderr
    assert "Traceback" not in refused.stderr
    fresh = run_script(tmp_path, changed, *command, "--fresh")
    assert fresh.returncode == 0, fresh.stderr
    assert "is set aside in set-aside-" in fresh.stderr
    (aside,) = (tmp_path / "store").glob("set-aside-*")
    assert {"store.json", "run-00000.npz", "posterior.npz"} <= {p.name for p in aside.iterdir()}
    assert run_script(tmp_path, changed, *command).returncode == 0
    trusting = run_script(tmp_path, SCRIPT, *command, "--trust-store")
    assert trusting.returncode == 0, trusting.stderr


def problem(density, *, noisy=False, **settings):
    return Problem(
        log_density=density,
        plausible_lower_bounds=[-2.0],
        plausible_upper_bounds=[2.0],
        noisy=noisy,
        **settings,
    )


def go(directory, density, n_runs=1, **settings):
    target = density if isinstance(density, Problem) else problem(density)
    options = {"max_fun_evals": 12, "final_components": 2, "reach": 1.0}
    asked = {"seed": 1, "engine": "native", "options": options, "executor": "here"}
    return launch(target, n_runs, store=directory, **{**asked, "progress": False, **settings})


CELL = """
offset = 0.5
calls = []

def log_density(x):
    calls.append(1)
    return -0.5 * float(x[0] ** 2) + offset
"""


def cell(text=CELL):
    space = {"__name__": "__main__"}
    exec(text, space)
    return space


def test_a_cell_of_a_notebook_that_is_run_twice_goes_on_and_a_changed_one_does_not(tmp_path):
    go(tmp_path, cell()["log_density"])
    again = cell()
    go(tmp_path, again["log_density"], 2)
    assert len(again["calls"]) == 1 + 12  # one evaluation to see that it is the same
    unchanged = cell()
    go(tmp_path, unchanged["log_density"], 2)
    assert unchanged["calls"] == []  # nothing to be made, nothing asked
    with pytest.raises(StoreMismatch, match="global 'offset' differs"):
        go(tmp_path, cell(CELL.replace("0.5\n", "0.6\n"))["log_density"], 3)


def test_one_that_is_only_written_differently_goes_on_if_it_is_trusted(tmp_path, capsys):
    calls = []

    def other(x):
        calls.append(1)
        half = x[0] ** 2 / 2
        return 0.5 - float(half)

    go(tmp_path, cell()["log_density"])
    with pytest.raises(StoreMismatch, match=r"although it has the same values at 2 points"):
        go(tmp_path, other, 1)
    assert len(calls) == 2
    go(tmp_path, other, 1, trust_store=True)
    go(tmp_path, other, 1, progress=True)
    assert len(calls) == 2  # its fingerprint has been recorded
    assert "uses other values" not in capsys.readouterr().err


def from_file(x, path):
    return -0.5 * float((x[0] - float(Path(path).read_text())) ** 2)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_behind_an_argument_is_compared_by_its_content(tmp_path, kind):
    path, store = tmp_path / "data.txt", tmp_path / "store"
    path.write_text("0.5")
    target = problem(from_file, args=(kind(path),))
    go(store, target)
    path.write_text("0.7")
    with pytest.raises(StoreMismatch, match=r"file args\[0\] differs"):
        go(store, target)  # although no run is to be made
    path.write_text("0.50")
    go(store, target)  # the same values


def test_a_file_that_no_argument_names_is_seen_by_the_values_alone(tmp_path):
    path, store = tmp_path / "data.txt", tmp_path / "store"
    path.write_text("0.5")
    target = problem(lambda x: from_file(x, path))
    go(store, target)
    path.write_text("0.7")
    go(store, target)  # nothing to be made: the fingerprint, which does not see it, is the same
    with pytest.raises(StoreMismatch) as refused:
        go(store, target, 2)
    assert "differs" not in str(refused.value)
    assert "in the store" in str(refused.value)


def test_a_journal_is_not_resumed_with_another_log_density(tmp_path):
    def interrupted(x, at):
        if len(list(tmp_path.glob("*.journal"))) and len(store.journalled(0)) > at:
            raise RuntimeError("stop")
        return -0.5 * float(x[0] ** 2)

    store = RunStore(tmp_path)
    with pytest.raises(Exception, match="stop"):
        go(tmp_path, problem(interrupted, args=(5,)))
    assert len(store.journalled(0)) == 6 or len(store.journalled(0)) == 5
    with pytest.raises(StoreMismatch, match="holds evaluations of another log density"):
        go(tmp_path, lambda x: -float(x[0] ** 2))
    mended = go(tmp_path, lambda x: -0.5 * float(x[0] ** 2), trust_store=True)
    assert len(mended) == 1


def noisy(x, rng, level=0.3):
    return -0.5 * float(x[0] ** 2) + level * rng.standard_normal(), level


def noisy_without_rng(x, level=0.3, height=0.0):
    return height - 0.5 * float(x[0] ** 2) + level * np.random.default_rng().normal(), level


def test_a_stochastic_one_with_rng_is_replayed_to_the_last_digit(tmp_path):
    go(tmp_path, problem(noisy, noisy=True))
    assert len(go(tmp_path, problem(noisy, noisy=True), 2)) == 2
    with pytest.raises(StoreMismatch, match=r"kwargs\['level'\] differs"):
        go(tmp_path, problem(noisy, noisy=True, kwargs={"level": 0.31}), 3)


def test_a_noisy_one_without_rng_is_compared_within_its_noise_and_by_its_parts(tmp_path):
    go(tmp_path, problem(noisy_without_rng, noisy=True))
    assert len(go(tmp_path, problem(noisy_without_rng, noisy=True), 2)) == 2
    changed = problem(noisy_without_rng, noisy=True, kwargs={"height": 1e-9})
    with pytest.raises(StoreMismatch, match="it is noisy without rng"):
        go(tmp_path, changed, 2)
    assert len(go(tmp_path, changed, 2, trust_store=True)) == 2


def logged(x, path):
    with Path(path).open("a") as file:
        file.write("called\n")
    return noisy_without_rng(x)


def test_a_file_that_the_log_density_writes_is_no_other_log_density(tmp_path):
    target = problem(logged, noisy=True, args=(str(tmp_path / "log.txt"),))
    go(tmp_path / "store", target)
    assert len(go(tmp_path / "store", target, 2)) == 2


def test_fresh_sets_aside_and_uses_a_new_plan_and_not_while_a_run_is_under_way(tmp_path):
    store = RunStore(tmp_path)
    go(tmp_path, cell()["log_density"], 2)
    with store.claim(1) as mine:
        assert mine
        store.path(1, "npz").rename(tmp_path / "elsewhere.npz")
        state: RunState = store.state(1)
        assert state.state == "running"
        with pytest.raises(StoreMismatch, match=r"runs \[1\] .* are under way"):
            go(tmp_path, cell()["log_density"], fresh=True)
    assert list(store.runs()) == [0]
    go(tmp_path, lambda x: -float(x[0] ** 2), 1, seed=7, fresh=True)
    assert store.read_plan().seed == 7
    assert list(store.runs()) == [0]


def test_auto_asks_only_once(tmp_path):
    space = cell()
    keep = Screen(require_converged=False, max_variance=np.inf)
    options = {"max_fun_evals": 12, "final_components": 2}
    posterior = fit(
        problem(space["log_density"]),
        "auto",
        max_runs=10,
        gain_tolerance=1e-9,
        store=tmp_path,
        seed=1,
        executor="here",
        options=options,
        screen=keep,
        verify=False,
        progress=False,
    )
    assert len(space["calls"]) == 12 * len(posterior.runs)


def cut_at(x, edge):
    return -np.inf if x[0] > edge else -0.5 * float(x[0] ** 2)


@pytest.mark.parametrize("other", [0.3, 1.95])
def test_a_support_that_changed_is_seen_at_its_edge(tmp_path, other):
    go(tmp_path, problem(cut_at, args=(0.8,)))
    with pytest.raises(StoreMismatch, match="-inf"):
        go(tmp_path, problem(cut_at, args=(other,)), 2)
    assert len(go(tmp_path, problem(cut_at, args=(0.8 + 1e-12,)))) == 1


def allowed_below(edge):
    return problem(lambda x: -0.5 * float(x[0] ** 2), constraint=lambda x: x[0] < edge)


@pytest.mark.parametrize("other", [0.3, 1.3])
def test_a_constraint_that_changed_is_compared_at_all_points(tmp_path, other):
    go(tmp_path, allowed_below(0.8))
    with pytest.raises(StoreMismatch, match=r"the constraint was (true|false), and is"):
        go(tmp_path, allowed_below(other), 2)
    with pytest.raises(StoreMismatch, match="the constraint was false, and is true now"):
        go(tmp_path, problem(lambda x: -0.5 * float(x[0] ** 2)), 2)
    assert len(go(tmp_path, allowed_below(0.8), 2)) == 2


def test_another_log_density_waits_for_no_run_that_is_under_way(tmp_path):
    def exits(x):
        raise SystemExit

    store = RunStore(tmp_path)
    with pytest.raises(TooFewRuns):
        go(tmp_path, exits)  # nothing is evaluated
    with store.claim(0), pytest.raises(StoreMismatch, match="its runs are under way"):
        go(tmp_path, cell()["log_density"])
    assert len(go(tmp_path, cell()["log_density"])) == 1


@pytest.mark.parametrize("kind", ["journal", "precomputed"])
def test_whatever_is_left_of_a_run_is_compared(tmp_path, kind):
    store = RunStore(tmp_path)
    go(tmp_path, cell()["log_density"])
    run = store.load(0)
    assert run is not None
    assert run.evaluations is not None
    made = run.evaluations
    store.path(0, "npz").unlink()
    with Journal(store.path(0, kind)) as journal:
        for place in range(1, 6):  # the first line is lost
            value = float(made.values[place])
            journal.append(Evaluation(tuple(made.x[place].tolist()), value, None, 0.0), place)
    with pytest.raises(StoreMismatch, match="holds evaluations of another log density"):
        go(tmp_path, lambda x: -float(x[0] ** 2))
