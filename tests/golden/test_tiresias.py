"""Tiresias: 2D-LAS in a few queues, with promotion."""

from typing import Any

import pytest

from sim.errors import GpuYardError
from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Las
from sim.schedulers.tiresias import Tiresias
from sim.sharing import NoSharing
from tests.sim.worlds import Job, attempts, cluster, play, world

RULES = {"placer": FirstFit(), "sharing": NoSharing()}
TRACE = [Job(0, 1, 10), Job(1, 1, 7)]
STARVED = [Job(0, 1, 10), Job(4, 1, 4), Job(8, 1, 4), Job(12, 1, 4)]


def tiresias(*thresholds_gpu_s: float, promote_knob: float | None = None) -> Tiresias:
    return Tiresias(**RULES, thresholds_gpu_s=thresholds_gpu_s, promote_knob=promote_knob)


def test_first_in_first_out_inside_a_queue():
    # At 4 A sinks to the second queue, at 8 B does: there A was first.
    #         0   4   8     14 17
    # GPU 0   AAAABBBBAAAAAABBB
    run = play(world(TRACE, cluster(1, 1)), tiresias(4))
    assert attempts(run.log) == {
        "A": [(0, 4, (0,)), (8, 14, (0,))],
        "B": [(4, 8, (0,)), (14, 17, (0,))],
    }


def test_las_differs():
    #         0   4      11    17   at 8 both have one quantum, so B is left alone
    # GPU 0   AAAABBBBBBBAAAAAA
    run = play(world(TRACE, cluster(1, 1)), Las(**RULES, quantum_gpu_s=4.0))
    assert attempts(run.log) == {"A": [(0, 4, (0,)), (11, 17, (0,))], "B": [(4, 11, (0,))]}


def test_three_queues():
    # A sinks at 2 and, with 6 GPU-s, at 9; B at 4; C is in the first queue all along.
    #         0 2 4 5 6  9  12 15
    # GPU 0   AABBACAAABBBAAA
    run = play(world([Job(0, 1, 9), Job(0, 1, 5), Job(5, 1, 1)], cluster(1, 1)), tiresias(2, 6))
    assert attempts(run.log) == {
        "A": [(0, 2, (0,)), (4, 5, (0,)), (6, 9, (0,)), (12, 15, (0,))],
        "B": [(2, 4, (0,)), (9, 12, (0,))],
        "C": [(5, 6, (0,))],
    }


def test_service_is_counted_in_gpu_seconds():
    #           0   4 5     11     A holds two GPUs: 8 GPU-s are over at 4
    # GPU 0, 1  AAAABAAAAAA
    run = play(world([Job(0, 2, 10), Job(1, 2, 1)], cluster(1, 2)), tiresias(8))
    assert attempts(run.log) == {"A": [(0, 4, (0, 1)), (5, 11, (0, 1))], "B": [(4, 5, (0, 1))]}


@pytest.mark.parametrize("knob", [None, 0.0])
def test_without_promotion_a_stream_of_short_jobs_starves_the_long_one(knob: float | None):
    #         0   4   8   12  16    22
    # GPU 0   AAAABBBBCCCCDDDDAAAAAA
    run = play(world(STARVED, cluster(1, 1)), tiresias(4, promote_knob=knob))
    assert attempts(run.log)["A"] == [(0, 4, (0,)), (16, 22, (0,))]


def test_promotion():
    # Half of the time it ran is enough. A has waited 2 s at 6, with 4 s of service: first queue,
    # for a turn of 4 s. At 10 it has 8 s of service and sinks; at 12 it has waited 4 s.
    #         0   4 6   10 12 14   18  22
    # GPU 0   AAAABBAAAABBAACCCCDDDD
    run = play(world(STARVED, cluster(1, 1)), tiresias(4, promote_knob=0.5))
    assert attempts(run.log) == {
        "A": [(0, 4, (0,)), (6, 10, (0,)), (12, 14, (0,))],
        "B": [(4, 6, (0,)), (10, 12, (0,))],
        "C": [(14, 18, (0,))],
        "D": [(18, 22, (0,))],
    }


def test_nobody_cuts_the_turn_of_a_promoted_job_short():
    # At 6 A has waited half of what it ran: a turn of 4 s. At 10 B has 2 GPU-s and a turn too; at
    # 12 A is due again but waits for its end at 14.
    #         0   4 6   10  14  18    24
    # GPU 0   AAAABBAAAABBBBAAAABBBBBB
    yard = world([Job(0, 1, 12), Job(0, 1, 12)], cluster(1, 1))
    run = play(yard, tiresias(4, promote_knob=0.5))
    assert attempts(run.log) == {
        "A": [(0, 4, (0,)), (6, 10, (0,)), (14, 18, (0,))],
        "B": [(4, 6, (0,)), (10, 14, (0,)), (18, 24, (0,))],
    }


@pytest.mark.parametrize("start_s", [0.0, 1e9])
def test_promotions_are_no_rush_of_decisions(start_s: float):
    # At 1e9 s a double steps by 1e-7 s. Every turn costs a restart longer than itself.
    trace = [Job(start_s + 0.3 * at, 1, 7.1) for at in range(6)]
    yard = world(trace, cluster(1, 1), restart_s=3.0)
    run = play(yard, tiresias(0.7, 2.1, promote_knob=0.9))
    assert run.finish_s.max() < start_s + 400.0
    assert run.decisions < 300


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("thresholds_gpu_s", ["a"], "ascending numbers above 0"),
        ("thresholds_gpu_s", [], "ascending numbers above 0"),
        ("thresholds_gpu_s", [0, 5], "ascending numbers above 0"),
        ("thresholds_gpu_s", [5, 5], "ascending numbers above 0"),
        ("thresholds_gpu_s", [5, float("nan")], "ascending numbers above 0"),
        ("promote_knob", -1, "null, or 0 or more"),
        ("promote_knob", float("inf"), "null, or 0 or more"),
    ],
)
def test_bad_values_are_refused(key: str, value: Any, rule: str):
    given = {"thresholds_gpu_s": [4.0], "promote_knob": None, key: value}
    with pytest.raises(GpuYardError, match=f"scheduler.{key} is .*{rule}"):
        Tiresias(**RULES, **given)
