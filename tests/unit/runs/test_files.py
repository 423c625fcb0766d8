"""Files: everything comes back, nothing executes, nothing is overwritten or half-written."""

import json
import pickle
from typing import Any

import numpy as np
import pytest

from tests.synthetic import random_run
from vbstack import (
    Evaluations,
    FileError,
    StackedPosterior,
    Surrogate,
    Transform,
    load_runs,
    save_runs,
    stack,
)
from vbstack.runs.files import pack_runs, write_file


def full_run(seed=0):
    rng = np.random.default_rng(seed)
    surrogate = Surrogate(
        inputs=rng.normal(size=(7, 2)),
        values=rng.normal(size=7),
        noise_variance=np.full((2, 1), 1e-5),
        log_lengths=rng.normal(size=(2, 2)),
        log_output=rng.normal(size=2),
        mean="negative_quadratic",
        mean_parameters=rng.normal(size=(2, 5)),
    )
    return random_run(
        rng,
        2,
        surrogate=surrogate,
        evaluations=Evaluations(rng.normal(size=(7, 2)), rng.normal(size=7), np.full(7, 0.5)),
        start=[0.5, -0.5],
        seed=2**62 + 1,
        seconds=3.25,
        engine="test",
        versions={"test": "1"},
        names=("α", "<b>"),
    )


def assert_same(a, b):
    for name in a.__dataclass_fields__:
        first, second = getattr(a, name), getattr(b, name)
        if hasattr(first, "__dataclass_fields__"):
            assert_same(first, second)
        elif isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second)
        else:
            assert first == second, name


def test_runs_come_back_bit_for_bit(tmp_path):
    runs = [full_run(0), full_run(1)]
    path = save_runs(tmp_path / "runs", runs)
    assert path.suffix == ".npz"
    for before, after in zip(runs, load_runs(path), strict=True):
        assert_same(before, after)


def test_compact_files_keep_what_stacking_needs(tmp_path):
    run = full_run()
    (back,) = load_runs(save_runs(tmp_path / "runs", [run], compact=True))
    assert back.surrogate is None
    np.testing.assert_array_equal(back.means, run.means)
    np.testing.assert_array_equal(back.expected_log_joint, run.expected_log_joint)
    np.testing.assert_allclose(
        back.expected_log_joint_covariance, run.expected_log_joint_covariance, rtol=1e-6
    )


def behind_one_bound(seed=0, **changes):
    """A run of a parameter above 0 and one below 5; changes are entries of its transform."""
    parts = {
        "kinds": [1, 2],
        "lower": [0.0, -np.inf],
        "upper": [np.inf, 5.0],
        "centre": [0.5, -1.0],
        "width": [2.0, 0.5],
        "scale": [1.0, 1.0],
        "rotation": np.eye(2),
    }
    rng = np.random.default_rng(seed)
    return random_run(rng, 2, transform=Transform(**{**parts, **changes}))


def test_a_stack_behind_one_bound_comes_back_in_the_users_units(tmp_path):
    posterior = stack([behind_one_bound(0), behind_one_bound(1)])
    back = StackedPosterior.load(posterior.save(tmp_path / "stack.npz"))
    x = back.sample(1000, seed=0)
    np.testing.assert_array_equal(x, posterior.sample(1000, seed=0))
    np.testing.assert_array_equal(back.log_pdf(x), posterior.log_pdf(x))
    for points in (x, back.mode()[None], back.components.centres):
        assert ((points[:, 0] > 0) & (points[:, 1] < 5)).all()
    assert back.pdf([-1.0, 0.0]) == back.pdf([1.0, 6.0]) == 0
    mean, covariance = back.moments()
    error = np.sqrt(np.diag(covariance) / len(x))
    np.testing.assert_array_less(np.abs(x.mean(axis=0) - mean), 5 * error)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kinds", [1, 1], "do not fit the bounds"),
        ("kinds", [1.5, 2], "not whole numbers"),
        ("kinds", [-1, 2], "unknown kinds"),
        ("lower", [-np.inf, -np.inf], "do not fit the bounds"),
        ("lower", [np.nan, -np.inf], "do not fit the bounds"),
        ("upper", [1.0, 5.0], "do not fit the bounds"),
        ("upper", [np.inf, np.inf], "do not fit the bounds"),
        ("centre", [1e4, 0.0], "too far out"),
    ],
)
def test_a_file_with_a_bad_link_is_refused(tmp_path, name, value, message):
    arrays, headers = pack_runs([behind_one_bound()])
    arrays[f"0000/transform.{name}"] = np.array(value, dtype=float)
    path = write_file(tmp_path / "bad.npz", "runs", arrays, {"runs": headers})
    with pytest.raises(FileError, match=message):
        load_runs(path)


def test_a_posterior_comes_back(tmp_path):
    posterior = stack([full_run(0), full_run(1)])
    path = posterior.save(tmp_path / "stack.npz")
    back = StackedPosterior.load(path)
    np.testing.assert_array_equal(back.weights, posterior.weights)
    assert back.evidence == posterior.evidence
    assert back.summary() == posterior.summary()
    x = posterior.sample(10, seed=0)
    np.testing.assert_array_equal(back.log_pdf(x), posterior.log_pdf(x))


def test_an_existing_file_is_kept(tmp_path):
    path = save_runs(tmp_path / "runs", [full_run()])
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save_runs(path, [full_run(1)])
    assert path.read_bytes() == before
    save_runs(path, [full_run(1)], overwrite=True)
    assert path.read_bytes() != before
    assert [p.name for p in tmp_path.iterdir()] == ["runs.npz"]


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError):
        save_runs(tmp_path / "missing" / "runs", [full_run()])
    run = full_run()
    object.__setattr__(run, "versions", {"bad": object()})
    with pytest.raises(TypeError):
        save_runs(tmp_path / "runs", [run])
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    old = save_runs(tmp_path / "runs", [full_run()]).read_bytes()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_runs(tmp_path / "runs", [full_run(1)], overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["runs.npz"]
    assert (tmp_path / "runs.npz").read_bytes() == old


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a file executed code",))


def test_foreign_and_damaged_files_are_refused_and_never_executed(tmp_path):
    good = save_runs(tmp_path / "good", [full_run()])
    whole = good.read_bytes()
    header = np.frombuffer(json.dumps({"format": "vbstack runs", "schema": 99}).encode(), np.uint8)
    files = {
        "text": b"hello",
        "empty": b"",
        "truncated": whole[: len(whole) // 2],
        "pickle": pickle.dumps(Bomb()),
    }
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 0xFF
    files["flipped"] = bytes(flipped)
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(FileError, match=name):
            load_runs(path)
    np.savez(tmp_path / "object.npz", a=np.array([Bomb()], dtype=object))
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    future: dict[str, Any] = {"header.json": header}
    np.savez(tmp_path / "future.npz", **future)
    text = json.dumps({"format": "vbstack runs", "schema": 1})
    bare: dict[str, Any] = {"header.json": np.frombuffer(text.encode(), np.uint8)}
    np.savez(tmp_path / "bare.npz", **bare)
    with pytest.raises(FileError, match="holds no runs"):
        load_runs(tmp_path / "bare.npz")
    for name, message in (
        ("object", "not a vbstack"),
        ("other", "not a vbstack"),
        ("future", "99"),
    ):
        with pytest.raises(FileError, match=message):
            load_runs(tmp_path / f"{name}.npz")
    with pytest.raises(FileError, match="holds a 'vbstack runs'"):
        StackedPosterior.load(good)
    with pytest.raises(FileNotFoundError):
        load_runs(tmp_path / "nowhere.npz")
