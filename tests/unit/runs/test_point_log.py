"""The log of evaluations at given points."""

import threading

from vbstack import Evaluation
from vbstack.runs.point_log import PointLog


def evaluation(x):
    return Evaluation((float(x),), -float(x), None, 0.1)


def test_what_is_appended_is_read(tmp_path):
    log = PointLog(tmp_path)
    assert log.read() == {}
    for place in (2, 0):
        log.append(place, evaluation(place))
    assert log.read() == {0: evaluation(0), 2: evaluation(2)}


def test_a_line_that_was_cut_short_is_ended_and_left_out(tmp_path):
    log = PointLog(tmp_path)
    log.append(0, evaluation(0))
    whole = log.path.read_bytes()
    log.append(1, evaluation(1))
    cut = log.path.read_bytes()[: len(whole) + 12]
    log.path.write_bytes(cut)
    log.append(1, evaluation(1))
    assert log.read() == {0: evaluation(0), 1: evaluation(1)}


def test_only_one_at_a_time_adds_points(tmp_path):
    log, order = PointLog(tmp_path), []

    def second():
        with PointLog(tmp_path).claim():
            order.append("second")

    with log.claim():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
