"""The planner online: order by workflows, GPUs by ends, gangs, and what a search finds."""

import pytest

from sim.errors import SignalError
from sim.placers.by_room import FirstFit, Packed
from sim.schedulers.orders import Fifo, Sjf, Srsf
from sim.schedulers.worl_online import WorlOnline
from sim.sharing import NoSharing
from tests.sim.worlds import Job, as_drawn, charted, cluster, physics_of, play, waiting, world

UNLIKE = cluster(2, 1, types=("fast", "slow"))  # GPU 1 takes twice as long
PACKED = {"placer": Packed(), "sharing": NoSharing()}
FIRST_FIT = {"placer": FirstFit(), "sharing": NoSharing(), "skip_blocked": True}


def worl(**given) -> WorlOnline:
    plain = {"workflows": "shortest", "plans": 0, "patience": 0.0, "holds": True,
             "makespan_weight": 0.0, "overrun_frac": 0.1, "most_tasks": 100}  # fmt: skip
    return WorlOnline(**{**plain, **given})


# A diamond: B (2 s) and C (6 s) wait for A, D for both. Times on the fast GPU. To go there: A 10,
# C 8, B 4, D 2.
DIAMOND, WAITS = [Job(0, 1, 2), Job(0, 1, 2), Job(0, 1, 6), Job(0, 1, 2)], [(), (0,), (0,), (1, 2)]
BLIND = "AaBb..........Dd ..Cccccccccccc"  # an order that does not see the diamond


@pytest.mark.parametrize(
    ("scheduler", "jobs", "parents", "drawing"),
    [
        (worl(), DIAMOND, WAITS, "AaCcccccDd ..Bbbb"),  # the critical task gets the fast GPU
        (Fifo(**FIRST_FIT), DIAMOND, WAITS, BLIND),
        (Sjf(**FIRST_FIT), DIAMOND, WAITS, BLIND),
        # B would end at 8 on the slow GPU at once, at 5 on the fast one from 1 on, so it waits.
        (worl(), [Job(0, 1, 1), Job(0, 1, 4)], None, "ABbbb"),
        # Patience 4: a second of waiting counts 4, so 5 + 4 x 1 is worse than 8 at once.
        (worl(patience=4.0), [Job(0, 1, 1), Job(0, 1, 4)], None, "A Bbbbbbbb"),
        # B waits for the fast GPU until 1, when A should end. From then on A is taken to have
        # another second: B would end at 2 + 4 there, at 1 + 8 on the slow one. A ends at 4.
        (worl(), [Job(0, 1, 4, estimate_s=1), Job(0, 1, 4)], None, "AaaaBbbb"),
    ],
)
def test_tasks_go_where_they_end_first(scheduler, jobs, parents, drawing):
    physics = physics_of(UNLIKE, compute_s=(1.0, 2.0))
    found = charted(jobs, UNLIKE, scheduler, physics=physics, traits=parents and waiting(*parents))
    assert found == drawing


# Two workflows on one GPU: A (1 s), then B (5 s); C (2 s), then D (2 s).
TWO = [Job(0, 1, 1), Job(0, 1, 5), Job(0, 1, 2), Job(0, 1, 2)]
TWO_WAIT = waiting((), (0,), (), (2,), workflow=(0, 0, 1, 1))
# A (1 GPU, 2 s), then B (2 GPUs, 2 s); C (1 GPU, 10 s) is a workflow of its own.
GANGS = [Job(0, 1, 2), Job(0, 2, 2), Job(0, 1, 10)]
GANGS_WAIT = waiting((), (0,), (), workflow=(0, 0, 1))
CASES = {  # what is seen -> scheduler, jobs, traits, GPUs of the one server, the chart of each GPU
    # Workflows end at 4 and 10; where the long one is first, at 6 (to go: A 6, B 5, C 4, D 2), 10.
    "the workflow with least to go is served first": (worl(), TWO, TWO_WAIT, 1, "CcDdABbbbb"),
    "heft ranks": (worl(workflows="together"), TWO, TWO_WAIT, 1, "ABbbbbCcDd"),
    "first come": (worl(workflows="submitted"), TWO, TWO_WAIT, 1, "ABbbbbCcDd"),
    "sjf sees no workflows": (Sjf(**PACKED, skip_blocked=True), TWO, TWO_WAIT, 1, "ACcDdBbbbb"),
    "nor does srsf": (Srsf(**PACKED), TWO, TWO_WAIT, 1, "ACcDdBbbbb"),
    "a search finds the better order": (
        worl(workflows="submitted", plans=8), TWO, TWO_WAIT, 1, "CcDdABbbbb"),
    "a blocked gang holds GPUs for when its parent ends": (
        worl(), GANGS, GANGS_WAIT, 2, "AaBbCccccccccc ..Bb"),
    "without holding it waits for those between": (
        worl(holds=False), GANGS, GANGS_WAIT, 2, "Aa........Bb CcccccccccBb"),
}  # fmt: skip
test_the_chart_is_as_drawn = as_drawn(CASES, "traits", "gpus")


@pytest.mark.parametrize(
    ("spread_s", "drawing"),
    [
        # A step over both servers takes 3 s in place of 1: C would end at 12, it waits.
        (2.0, "AaaCccc*2 . Bbb*2"),
        (0.5, "Aaa*2 Cccccc Bbb*2 Cccccc"),  # 1.5 s a step: it spreads, which ends sooner
    ],
)
def test_a_gang_waits_for_one_server_where_spreading_costs_more(spread_s: float, drawing: str):
    # Two servers of three GPUs: A and B (2 GPUs, 3 s) leave one GPU each, C (2, 4 s) is third.
    jobs, topology = [Job(0, 2, 3), Job(0, 2, 3), Job(0, 2, 4)], cluster(2, 3)
    physics = physics_of(topology, server_s=[0.0, 0.0, spread_s])
    assert charted(jobs, topology, worl(workflows="submitted"), physics=physics) == drawing


def test_it_needs_predictions():
    jobs = [Job(0, 1, 4, estimate_s=float("nan"))]
    with pytest.raises(SignalError, match="no duration prediction; choose estimator="):
        play(world(jobs, cluster(1, 1)), worl())
