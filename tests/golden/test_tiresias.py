"""Tiresias: 2D-LAS in a few queues with promotion, or by a Gittins index learned from who left."""

import numpy as np
import pytest

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Las
from sim.schedulers.tiresias import Tiresias, TiresiasGittins, gittins_index
from sim.sharing import NoSharing
from tests.sim.worlds import Job, as_drawn, chart, charted, cluster, fates, play, world

RULES = {"placer": FirstFit(), "sharing": NoSharing()}


def tiresias(*thresholds_gpu_s: float, promote_knob: float | None = None) -> Tiresias:
    return Tiresias(**RULES, thresholds_gpu_s=thresholds_gpu_s, promote_knob=promote_knob)


def gittins(least_history: int, quantum_gpu_s: float = 1.0, refit_growth_frac: float = 0.0):
    return TiresiasGittins(
        **RULES, quantum_gpu_s=quantum_gpu_s, least_history=least_history,
        refit_growth_frac=refit_growth_frac,
    )  # fmt: skip


TWO = [Job(0, 1, 10), Job(1, 1, 7)]
THREE = [Job(0, 1, 9), Job(0, 1, 5), Job(5, 1, 1)]
STARVED = [Job(0, 1, 10), Job(4, 1, 4), Job(8, 1, 4), Job(12, 1, 4)]
# A, B and C tell that jobs take 1 s, 1 s or 4 s; then D and E meet.
HISTORY = [Job(0, 1, 1), Job(0, 1, 1), Job(0, 1, 4), Job(6, 1, 4), Job(8, 1, 2)]
CASES = {  # what is seen -> scheduler, jobs, GPUs of the one server, the chart of each GPU
    # At 4 A sinks to the second queue, at 8 B does: there A was first.
    "first in, first out inside a queue": (tiresias(4), TWO, 1, "AaaaBbbbAaaaaaBbb"),
    "las differs: at 8 both have one quantum, B is left alone": (
        Las(**RULES, quantum_gpu_s=4.0), TWO, 1, "AaaaBbbbbbbAaaaaa"),
    # A sinks at 2 and, with 6 GPU-s, at 9; B at 4; C is in the first queue all along.
    "three queues": (tiresias(2, 6), THREE, 1, "AaBbACAaaBbbAaa"),
    "A's two GPUs make 8 GPU-s by 4": (
        tiresias(8), [Job(0, 2, 10), Job(1, 2, 1)], 2, "AaaaBAaaaaa*2"),
    "a stream of short jobs starves the long one": (
        tiresias(4), STARVED, 1, "AaaaBbbbCcccDdddAaaaaa"),
    "a knob of 0 promotes nobody": (
        tiresias(4, promote_knob=0.0), STARVED, 1, "AaaaBbbbCcccDdddAaaaaa"),
    # Half of the time it ran is enough. A has waited 2 s at 6, with 4 s of service: first queue,
    # for a turn of 4 s. At 10 it has 8 s of service and sinks; at 12 it has waited 4 s.
    "promotion": (tiresias(4, promote_knob=0.5), STARVED, 1, "AaaaBbAaaaBbAaCcccDddd"),
    # At 6 A has waited half of what it ran: a turn of 4 s. At 10 B has 2 GPU-s and a turn too; at
    # 12 A is due again but waits for its end at 14.
    "nobody cuts the turn of a promoted job short": (
        tiresias(4, promote_knob=0.5), [Job(0, 1, 12)] * 2, 1, "AaaaBbAaaaBbbbAaaaBbbbbb"),
    # B waited 2 s and has run enough at 7, as its turn ends: due, were it to give way. So it has
    # another turn. At 13 it has waited half of what it ran.
    "who has run just enough has one turn more": (
        tiresias(4, promote_knob=0.5), [Job(0, 1, 3), Job(1, 1, 9), Job(1, 1, 4)], 1,
        "AaaBbbbbbbbCcBCc"),
    # Of 1, 1 and 4 quanta: index 2/3 with no service (two of three end at once), 1/3 with one
    # quantum (three more), 1/2 with two, 1 with three.
    # At 8 D has two quanta (1/2), E none (2/3). At 9 E has one (1/3), at 10 D has three (1).
    "gittins: who is likely to be done soon goes on": (gittins(3), HISTORY, 1, "ABCcccDdEDdE"),
    "tiresias differs: at 9 E has less service than D": (
        tiresias(1, 2, 3), HISTORY, 1, "ABCcccDdEeDd"),
    # Known: 1 quantum. At 4 B has three, C none; at 5 D comes, and C, which ended, took one.
    "gittins: more service than anybody took ranks last": (
        gittins(1), [Job(0, 1, 1), Job(0, 1, 7), Job(4, 1, 1), Job(5, 1, 1)], 1, "ABbbCDBbbb"),
}  # fmt: skip
test_the_chart_is_as_drawn = as_drawn(CASES)


def test_who_gives_up_waiting_took_what_it_had():
    # At 6 A gives up, pushed aside at 4 with just one quantum: all that is known to be taken. So at
    # 8 B, with one quantum, ranks after C; had A taken two, B would be done soon and go on.
    jobs = [Job(0, 1, 20), Job(1, 1, 9), Job(7, 1, 2)]
    drawing = charted(jobs, cluster(1, 1), gittins(1, 4.0), traits=fates(6, np.inf, np.inf))
    assert drawing == "AaaaBbbbCcBbbbb"


def test_who_gives_up_restarting_took_what_it_had():
    # A runs to 4, B to 8, C to 10. A restarts from 10 to 13, but gives up at 12 with one quantum,
    # as C. So at 16 B, with one, ranks after D; had A taken two, B would be done soon and go on.
    jobs = [Job(0, 1, 20), Job(1, 1, 9), Job(7, 1, 2), Job(16, 1, 2)]
    gone = fates(12, np.inf, np.inf, np.inf)
    run = play(world(jobs, cluster(1, 1), restart_s=3.0, traits=gone), gittins(2, 4.0))
    assert run.finish_s[3] == 18


def test_who_gives_up_while_nobody_waits_took_what_it_had():
    # B pushes A aside from 4 to 6. A restarts until 9, but gives up at 8 with one quantum, as B;
    # nobody is asked before 12. So at 17 C, with one, ranks after D; had A taken two, C would be
    # done soon and go on.
    jobs = [Job(0, 1, 20), Job(1, 1, 2), Job(12, 1, 9), Job(17, 1, 2)]
    gone = fates(8, np.inf, np.inf, np.inf)
    run = play(world(jobs, cluster(1, 1), restart_s=3.0, traits=gone), gittins(2, 4.0))
    assert run.finish_s[3] == 19


def test_who_takes_whole_quanta_took_these_however_the_clock_rounds():
    # B pushes A aside from 3.6 to 7.2; its third quantum ends just before, at 7.199999999999999. A
    # has had three as well when C comes; had B taken four, A would be done soon and go on.
    jobs = [Job(0, 1, 9), Job(3.6, 1, 3.6), Job(7.5, 1, 1)]
    run = play(world(jobs, cluster(1, 1)), gittins(1, 1.2))
    assert run.finish_s[2] == 8.5


@pytest.mark.parametrize("start_s", [0.0, 1e9])
def test_promotions_are_no_rush_of_decisions(start_s: float):
    # At 1e9 s a double steps by 1e-7 s. Every turn costs a restart longer than itself.
    trace = [Job(start_s + 0.3 * at, 1, 7.1) for at in range(6)]
    yard = world(trace, cluster(1, 1), restart_s=3.0)
    run = play(yard, tiresias(0.7, 2.1, promote_knob=0.9))
    assert run.finish_s.max() < start_s + 400.0
    assert run.decisions < 300


def by_definition(quanta: np.ndarray) -> list[float]:
    """Every stretch tried for every attained service."""
    index = []
    for k in range(quanta.max()):
        left = quanta[quanta > k] - k
        stretches = range(1, left.max() + 1)
        index.append(max((left <= d).mean() / np.minimum(left, d).mean() for d in stretches))
    return index


@pytest.mark.parametrize("seed", range(20))
def test_the_index_is_the_best_of_all_stretches(seed: int):
    rng = np.random.default_rng(seed)
    quanta = 1 + rng.integers(0, 1 + rng.integers(1, 40), rng.integers(1, 30))
    np.testing.assert_allclose(gittins_index(quanta), by_definition(quanta), rtol=1e-12)


def test_equal_indices_are_equal_numbers():
    # Three of nine end in their first quantum. Five have more than two: all of them end within four
    # more, and take 15.
    index = gittins_index(np.array([1, 1, 3, 6, 5, 5, 2, 6, 1]))
    assert index[0] == index[2] == 1 / 3


def test_before_there_is_history_gittins_is_las_and_a_run_begins_without_memory():
    jobs, scheduler = [*HISTORY, Job(8.5, 1, 6), Job(9, 1, 3)], gittins(3)
    las, few, enough, again = (
        chart(play(world(jobs, cluster(1, 1)), each), 0.5)
        for each in (Las(**RULES, quantum_gpu_s=1.0), gittins(100), scheduler, scheduler)
    )
    assert few == las != enough == again
