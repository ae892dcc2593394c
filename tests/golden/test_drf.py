"""Dominant resource fairness between users."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim.jobs import ANY_TYPE, Identity
from sim.placers.by_room import FirstFit
from sim.schedulers.drf import Drf
from sim.schedulers.orders import Fifo, SmallestGang
from sim.sharing import NoSharing
from tests.sim.worlds import Job, as_drawn, charted, cluster, demands, gantt, play, world

RULES = {"placer": FirstFit(), "sharing": NoSharing(), "skip_blocked": True}
DRF, FIFO, SMALLEST = Drf(**RULES), Fifo(**RULES), SmallestGang(**RULES)


def by(users: Sequence[int], vcs: Sequence[int] | None = None) -> dict[str, Any]:
    user = np.array(users)
    vc = np.full_like(user, -1) if vcs is None else np.array(vcs)
    return {"identity": Identity(user=user, group=np.full_like(user, -1), vc=vc)}


# User 0 has A, B and C, user 1 has D. At 4 user 0 holds B, half of the GPUs, user 1 nothing.
TRACE, USERS, UNKNOWN = [Job(0, 2, 4), Job(0, 2, 6), Job(1, 1, 4), Job(2, 2, 4)], [0, 0, 0, 1], -1
FAIR, UNFAIR = "AaaaDddd*2 BbbbbbCccc Bbbbbb", "AaaaCccc Aaaa..Dddd BbbbbbDddd Bbbbbb"
THREE = [Job(0, 2, 5), Job(1, 2, 4), Job(2, 1, 4)]
# At 1 user 1 holds nothing but B does not fit beside A; C of user 0 would. At 5 nobody holds
# anything, and C asks for less than B.
TURNS = [Job(0, 1, 5), Job(1, 2, 2), Job(1, 1, 2)]
CASES = {  # what is seen -> scheduler, jobs, traits, GPUs of the one server, the chart
    "who holds least is next": (DRF, TRACE, by(USERS), 4, FAIR),
    "fifo starts C and D waits for B": (FIFO, TRACE, by(USERS), 4, UNFAIR),
    "so does smallest gang": (SMALLEST, TRACE, by(USERS), 4, UNFAIR),
    "without users the virtual cluster counts": (DRF, TRACE, by([UNKNOWN] * 4, USERS), 4, FAIR),
    "without identities the least request": (DRF, THREE, {}, 2, "AaaaaCcccBbbb Aaaaa....Bbbb"),
    "as smallest gang does": (SMALLEST, THREE, {}, 2, "AaaaaCcccBbbb Aaaaa....Bbbb"),
    "and fifo does not": (FIFO, THREE, {}, 2, "AaaaaBbbbCccc AaaaaBbbb"),
    "a blocked turn is skipped": (DRF, TURNS, by([0, 1, 0]), 2, "AaaaaBb .Cc..Bb"),
    "or ends the decision": (
        Drf(**{**RULES, "skip_blocked": False}), TURNS, by([0, 1, 0]), 2, "AaaaaCcBb .......Bb"),
}  # fmt: skip
test_the_chart_is_as_drawn = as_drawn(CASES, "traits", "gpus")


def test_each_start_of_a_decision_counts_for_the_next():
    # At 2 all four GPUs are given out: B (user 0), E (user 1), then C and F, and D at 7.
    trace = [Job(0, 4, 2), *[Job(1, 1, 5)] * 5]
    run = play(world(trace, cluster(1, 4), traits=by([2, 0, 0, 0, 1, 1])), DRF)
    starts_s = {job: start_s for job, (start_s, _, _) in gantt(run).items()}
    assert starts_s == {"A": 0, "B": 2, "C": 2, "D": 7, "E": 2, "F": 2}


def test_equal_shares_are_equal_however_they_came_about():
    # User 1 holds a gang of 8 of 20 GPUs (I), user 0 as many one by one (A to H). Of what both ask
    # for next K, 3 GPUs, is less than J, 4, and there is room for one of them.
    trace = [*[Job(0, 1, 9)] * 8, Job(0, 8, 9), Job(0, 4, 5), Job(0, 3, 5)]
    run = play(world(trace, cluster(1, 20), traits=by([0] * 8 + [1, 0, 1])), DRF)
    assert [gantt(run)[job][0] for job in "HIJK"] == [0, 0, 5, 0]


def test_the_dominant_share_may_be_that_of_cores():
    # User 0 holds a quarter of the GPUs and 8 of 10 cores (A), user 1 half of the GPUs (B). At 0
    # nobody holds anything: the least request first, E, B, A.
    trace = [Job(0, 1, 10), Job(0, 2, 10), Job(0, 1, 4), Job(0, 1, 3), Job(0, 1, 1)]
    asks = [(1000, cores, 0, ANY_TYPE) for cores in (8000, 0, 0, 0, 0)]
    topology = replace(cluster(1, 4), server_cpu_milli=np.array([10_000]))
    found = charted(trace, topology, DRF, traits=by([0, 1, 0, 1, 2]) | demands(*asks))
    assert found == "EDddCccc Bbbbbbbbbb*2 Aaaaaaaaaa"
