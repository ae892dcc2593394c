"""Least attained service in quanta."""

import numpy as np
import pytest

from sim.errors import EndlessRun, GpuYardError
from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Fifo, Las, Srtf
from sim.sharing import NoSharing
from sim.simulator import simulate
from tests.sim.worlds import Job, attempts, cluster, play, world

TRACE = [Job(0, 1, 10), Job(1, 1, 3)]
RULES = {"placer": FirstFit(), "sharing": NoSharing()}


def test_the_newcomer_waits_for_the_quantum_then_passes():
    #         0   4  7     13      quantum 4 GPU-s: at 4 A has one quantum, B none
    # GPU 0   AAAABBBAAAAAA
    run = play(world(TRACE, cluster(1, 1)), Las(**RULES, quantum_gpu_s=4.0))
    assert attempts(run.log) == {"A": [(0, 4, (0,)), (7, 13, (0,))], "B": [(4, 7, (0,))]}


def test_fifo_and_srtf_differ():
    # FIFO:   AAAAAAAAAABBB
    # SRTF:   ABBBAAAAAAAAA        at 1 B has 3 s left, A has 9 s
    fifo = play(world(TRACE, cluster(1, 1)), Fifo(**RULES, skip_blocked=True))
    assert attempts(fifo.log) == {"A": [(0, 10, (0,))], "B": [(10, 13, (0,))]}
    srtf = play(world(TRACE, cluster(1, 1)), Srtf(**RULES))
    assert attempts(srtf.log) == {"A": [(0, 1, (0,)), (4, 13, (0,))], "B": [(1, 4, (0,))]}


def test_service_is_counted_in_gpu_seconds():
    #           0 2 3        11     A holds two GPUs: 4 GPU-s are over at 2
    # GPU 0, 1  AABAAAAAAAA
    run = play(world([Job(0, 2, 10), Job(1, 2, 1)], cluster(1, 2)), Las(**RULES, quantum_gpu_s=4.0))
    assert attempts(run.log) == {"A": [(0, 2, (0, 1)), (3, 11, (0, 1))], "B": [(2, 3, (0, 1))]}


def test_two_long_jobs_take_turns_quantum_by_quantum():
    # quantum 2: A 0-2 (1 quantum), B 2-4 (1). At 4 B is not behind A: it keeps the GPU to 6 (2);
    # A has 1: 6-8 (2), at 8 A keeps it to 10 (3); B has 2: 10-12 (3), keeps it.
    #         0 2   6   10
    # GPU 0   AABBBBAAAABBB..
    run = play(world([Job(0, 1, 6), Job(0, 1, 7)], cluster(1, 1)), Las(**RULES, quantum_gpu_s=2.0))
    assert attempts(run.log) == {
        "A": [(0, 2, (0,)), (6, 10, (0,))],
        "B": [(2, 6, (0,)), (10, 13, (0,))],
    }


def test_a_quantum_below_the_clock_s_grain_still_moves_time():
    # At 1e9 s a double steps by 1e-7 s, more than the 1e-9 of a quantum that counts as past it.
    trace = [Job(1e9, 3, 2.1), Job(1e9 + 0.3, 3, 2.1)]
    run = play(world(trace, cluster(1, 3)), Las(**RULES, quantum_gpu_s=0.7))
    assert run.finish_s.max() == pytest.approx(1e9 + 4.2, abs=1e-3)


def test_a_quantum_of_nothing_is_refused():
    with pytest.raises(GpuYardError, match=r"quantum_gpu_s is 0.*above 0"):
        Las(**RULES, quantum_gpu_s=0.0)


def test_a_turn_no_longer_than_the_restart_still_does_work():
    # Two gangs of 4, quantum 8 GPU-s: a turn of 2 s, after a restart of 4 s that is no service.
    run = play(
        world([Job(0, 4, 6), Job(0, 4, 6)], cluster(1, 4), restart_s=4.0),
        Las(**RULES, quantum_gpu_s=8.0),
    )
    assert run.finish_s.max() < 60.0


def test_a_restart_just_short_of_a_quantum_is_no_rush_of_decisions():
    # A gives way at 3.999, 0.001 s short of its second quantum, and is back at 9.999 while others
    # wait. Its quantum is over only after the restart of 60 s, not every 0.001 s from then on.
    trace = [Job(0, 1, 10), Job(3.999, 1, 10), Job(3.999, 1, 10)]
    run = play(world(trace, cluster(1, 1), restart_s=60.0), Las(**RULES, quantum_gpu_s=2.0))
    assert attempts(run.log)["A"][:2] == [(0, 3.999, (0,)), (9.999, 70.0, (0,))]
    assert run.decisions < 100


@pytest.mark.parametrize("compiled", [True, False])
def test_jobs_that_keep_nothing_take_turns_for_ever_and_that_is_said(compiled):
    endless = world([Job(0, 1, 6), Job(0, 1, 7)], cluster(1, 1), preempt_saves=False)
    with pytest.raises(EndlessRun, match=r"job A has lost its GPUs .*preempt_saves=true"):
        simulate(endless, Las(**RULES, quantum_gpu_s=2.0), 0, None, compiled=compiled)


def test_turns_that_keep_their_work_end_however_many():
    # Turns of two quanta of 0.01 s: 50,000 of them before one of the jobs ends.
    run = play(
        world([Job(0, 1, 500), Job(0, 1, 500)], cluster(1, 1)), Las(**RULES, quantum_gpu_s=0.01)
    )
    assert run.preemptions.sum() > 49_000
    assert np.isfinite(run.finish_s).all()
