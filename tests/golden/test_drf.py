"""Dominant resource fairness between users."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim.jobs import ANY_TYPE, Demands, Identity
from sim.placers.by_room import FirstFit
from sim.schedulers.drf import Drf
from sim.schedulers.orders import Fifo, SmallestGang
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

RULES = {"placer": FirstFit(), "sharing": NoSharing(), "skip_blocked": True}
# User 0 has A, B and C, user 1 has D.
TRACE = [Job(0, 2, 4), Job(0, 2, 6), Job(1, 1, 4), Job(2, 2, 4)]
USERS = [0, 0, 0, 1]


def by(users: Sequence[int], vcs: Sequence[int] | None = None) -> dict[str, Any]:
    user = np.array(users)
    vc = np.full_like(user, -1) if vcs is None else np.array(vcs)
    return {"identity": Identity(user=user, group=np.full_like(user, -1), vc=vc)}


def test_who_holds_least_is_next():
    # At 4 user 0 holds B, half of the GPUs, user 1 nothing.
    #         0   4 6 8 10
    # GPU 0   AAAADDDD
    # GPU 1   AAAADDDD
    # GPU 2   BBBBBBCCCC
    # GPU 3   BBBBBB
    run = play(world(TRACE, cluster(1, 4), traits=by(USERS)), Drf(**RULES))
    assert gantt(run) == {
        "A": (0, 4, (0, 1)), "B": (0, 6, (2, 3)), "C": (6, 10, (2,)), "D": (4, 8, (0, 1)),
    }  # fmt: skip


def test_fifo_and_smallest_gang_differ():
    #         0   4 6 8 10    both start C at 4, and D has to wait for B
    # GPU 0   AAAACCCC
    # GPU 1   AAAA..DDDD
    # GPU 2   BBBBBBDDDD
    for other in (Fifo(**RULES), SmallestGang(**RULES)):
        run = play(world(TRACE, cluster(1, 4), traits=by(USERS)), other)
        assert gantt(run)["C"] == (4, 8, (0,))
        assert gantt(run)["D"] == (6, 10, (1, 2))


def test_each_start_of_a_decision_counts_for_the_next():
    # At 2 all four GPUs are given out: A (user 0), D (user 1), then B and E, not A, B, C and D.
    #         0 2    7
    # GPU 0   XXAAAAA
    # GPU 1   XXDDDDD
    # GPU 2   XXBBBBB
    # GPU 3   XXEEEEE CCCCC
    trace = [Job(0, 4, 2), *[Job(1, 1, 5)] * 5]
    run = play(world(trace, cluster(1, 4), traits=by([2, 0, 0, 0, 1, 1])), Drf(**RULES))
    starts_s = {job: start_s for job, (start_s, _, _) in gantt(run).items()}
    assert starts_s == {"A": 0, "B": 2, "C": 2, "D": 7, "E": 2, "F": 2}


def test_equal_shares_are_equal_however_they_came_about():
    # User 1 holds a gang of 8 of 20 GPUs (I), user 0 as many one by one (A to H). Of what both ask
    # for next K, 3 GPUs, is less than J, 4, and there is room for one of them.
    trace = [*[Job(0, 1, 9)] * 8, Job(0, 8, 9), Job(0, 4, 5), Job(0, 3, 5)]
    run = play(world(trace, cluster(1, 20), traits=by([0] * 8 + [1, 0, 1])), Drf(**RULES))
    assert [gantt(run)[job][0] for job in "HIJK"] == [0, 0, 5, 0]


def test_the_dominant_share_may_be_that_of_cores():
    # User 0 holds a quarter of the GPUs and 8 of 10 cores (A), user 1 half of the GPUs (B).
    #         0 1  4   8 10
    # GPU 0   X DDDCCCC         at 0 nobody holds anything: the least request first, X, B, A
    # GPU 1-2 BBBBBBBBBB
    # GPU 3   AAAAAAAAAA
    trace = [Job(0, 1, 10), Job(0, 2, 10), Job(0, 1, 4), Job(0, 1, 3), Job(0, 1, 1)]
    demands = Demands(
        gpu_milli=np.full(5, 1000),
        cpu_milli=np.array([8000, 0, 0, 0, 0]),
        memory_mib=np.zeros(5, dtype=np.int64),
        type_mask=np.full(5, ANY_TYPE),
    )
    topology = replace(cluster(1, 4), server_cpu_milli=np.array([10_000]))
    traits = {**by([0, 1, 0, 1, 2]), "demands": demands}
    run = play(world(trace, topology, traits=traits), Drf(**RULES))
    assert gantt(run) == {
        "A": (0, 10, (3,)), "B": (0, 10, (1, 2)), "C": (4, 8, (0,)), "D": (1, 4, (0,)),
        "E": (0, 1, (0,)),
    }  # fmt: skip


def test_where_no_user_is_known_the_virtual_cluster_counts():
    unknown = [-1] * len(TRACE)
    known = play(world(TRACE, cluster(1, 4), traits=by(USERS)), Drf(**RULES))
    by_vc = play(world(TRACE, cluster(1, 4), traits=by(unknown, USERS)), Drf(**RULES))
    assert gantt(by_vc) == gantt(known)


def test_without_identities_the_least_request_goes_first():
    # A holds both GPUs until 5, then C (1 GPU) goes before B (2).
    trace = [Job(0, 2, 5), Job(1, 2, 4), Job(2, 1, 4)]
    runs = [play(world(trace, cluster(1, 2)), s(**RULES)) for s in (Drf, SmallestGang, Fifo)]
    drf, smallest, fifo = map(gantt, runs)
    assert drf == smallest == {"A": (0, 5, (0, 1)), "B": (9, 13, (0, 1)), "C": (5, 9, (0,))}
    assert drf != fifo


def test_a_blocked_turn_ends_the_decision_unless_skipped():
    # At 1 user 1 holds nothing but B does not fit beside A; C of user 0 would. At 5 nobody holds
    # anything, and C asks for less than B.
    trace = [Job(0, 1, 5), Job(1, 2, 2), Job(1, 1, 2)]
    starts_s = {
        skip: gantt(play(world(trace, cluster(1, 2), traits=by([0, 1, 0])),
                         Drf(**{**RULES, "skip_blocked": skip})))["C"][0]
        for skip in (True, False)
    }  # fmt: skip
    assert starts_s == {True: 1, False: 5}
