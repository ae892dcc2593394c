"""What every round-based scheduler does: who keeps, moves, waits, and when it is asked."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sim.errors import SimulationError
from sim.jobs import ANY_TYPE
from sim.placers.by_room import Consolidated, Packed
from sim.protocols import Placer
from sim.rounds import RoundScheduler, Share
from sim.topology.outages import Change
from sim.view import ClusterView, Signal
from tests.sim.worlds import (
    Job,
    changes,
    chart,
    charted,
    cluster,
    demands,
    elastic,
    gantt,
    parts,
    physics_of,
    play,
    world,
)

Shares = list[tuple[int, int]]


def always(*shares: tuple[int, int]) -> Callable[[float], Shares]:
    return lambda now_s: list(shares)  # noqa: ARG005


class Told(RoundScheduler):
    """Allots what a function of the time says, to those of the jobs that are there."""

    order_name = "told"
    order_needs = Signal.NONE

    def __init__(
        self, say: Callable[[float], Shares], *, placer: Placer, round_s: float, spare: bool = False
    ) -> None:
        super().__init__(placer=placer, round_s=round_s)
        self.say, self.spare = say, spare
        self.asked_s: list[float] = []

    def allot(self, view: ClusterView) -> list[Share]:
        self.asked_s.append(view.now_s)
        there = {*view.queued.tolist(), *view.running.tolist()}
        return [Share(job, gpus) for job, gpus in self.say(view.now_s) if job in there]

    def leftovers(self, view: ClusterView) -> list[Share]:
        there = sorted([*view.queued.tolist(), *view.running.tolist()])
        return [Share(job, int(view.jobs.num_gpus[job])) for job in there if self.spare]


class MakesRoom(Told):
    makes_room = True


def test_equal_shares_keep_their_gpus_whatever_the_order():
    # The order of importance is turned round at every round; nobody moves.
    jobs = [Job(0, 1, 20), Job(0, 2, 20), Job(0, 1, 20)]
    orders = {0: [0, 1, 2], 1: [2, 1, 0]}

    def say(now_s: float) -> Shares:
        return [(job, jobs[job].num_gpus) for job in orders[int(now_s / 5) % 2]]

    told = Told(say, placer=Packed(), round_s=5.0)
    run = play(world(jobs, cluster(1, 4), restart_s=3.0), told)
    assert chart(run, 5.0) == "Aaaa Bbbb*2 Cccc"
    assert told.asked_s == [0, 5, 10, 15, 20]
    assert run.restarts.sum() == 0


GROWS = elastic([1, 1, 1], [1, 2, 1])


def grows(now_s: float) -> Shares:
    """From 5 on B has two GPUs."""
    return [(0, 1), (1, 1 if now_s < 5 else 2), (2, 1)]


def test_only_the_job_whose_number_changes_moves():
    jobs = [Job(0, 1, 10), Job(0, 1, 15), Job(0, 1, 10)]
    found = charted(jobs, cluster(1, 4), Told(grows, placer=Packed(), round_s=5.0), traits=GROWS)
    assert found == "Aaaaaaaaaa BbbbbBbbbb Cccccccccc .....Bbbbb"


def test_who_finds_no_place_for_its_new_share_stays_as_it_was():
    # At 5 B is to have two GPUs of one server, but A and C hold one of each.
    told = Told(grows, placer=Consolidated(), round_s=5.0)
    found = charted([Job(0, 1, 10)] * 3, cluster(2, 2), told, traits=GROWS, restart_s=1.0)
    assert found == "Aaaaaaaaaa Bbbbbbbbbb Cccccccccc"


def test_who_goes_on_keeps_its_gpus_where_cores_are_short_and_others_are_empty():
    # Cores for B's two workers alone. From 5 on GPUs 0 and 1 are empty, and B is nobody's choice.
    topology = replace(cluster(1, 4), server_cpu_milli=np.array([4000]))
    traits = demands((1000, 0, 0, ANY_TYPE), (1000, 2000, 0, ANY_TYPE))
    told = Told(
        lambda now_s: [(0, 2), (1, 2)] * (now_s < 5), placer=Packed(), round_s=5.0, spare=True
    )
    found = charted([Job(0, 2, 4), Job(0, 2, 9)], topology, told, traits=traits, restart_s=1.0)
    assert found == "Aaaa*2 Bbbbbbbbb*2"


def test_between_rounds_newcomers_start_and_nobody_is_preempted():
    # B finds room at 2, C at 3 does not. The round at 5 gives A's GPU to C, the one at
    # 10 gives it back.
    rounds = [[(0, 1), (1, 1)], [(2, 1), (1, 1)], [(0, 1)], []]
    told = Told(lambda now_s: rounds[int(now_s / 5)], placer=Packed(), round_s=5.0)
    jobs = [Job(0, 1, 10), Job(2, 1, 8), Job(3, 1, 5)]
    assert charted(jobs, cluster(1, 2), told) == "AaaaaCccccAaaaa ..Bbbbbbbb"


def test_a_round_begins_late_where_nobody_was_there():
    # Rounds at 0 and 5; none is due at 7 when A is gone and B comes, so B starts as a newcomer, and
    # the next is at 10. Where the cluster was empty for longer, the round begins with the job.
    told = Told(always((0, 1), (1, 1), (2, 1)), placer=Packed(), round_s=5.0)
    run = play(world([Job(0, 1, 6), Job(7, 1, 1), Job(33, 1, 4)], cluster(1, 1)), told)
    assert gantt(run) == {"A": (0, 6, (0,)), "B": (7, 8, (0,)), "C": (33, 37, (0,))}
    assert told.asked_s[:2] == [0, 5]
    assert 35 in told.asked_s


# A and C share the first server, B and D the second; C and D are short. E is as large as a server.
WIDE = [Job(0, 1, 12), Job(0, 1, 12), Job(0, 1, 2), Job(0, 1, 2), Job(1, 2, 4)]


def wide(now_s: float) -> Shares:
    """A first and B last; from the round at 5 on E before B."""
    if now_s < 5:
        return [(0, 1), (2, 1), (1, 1), (3, 1)]
    return [(0, 1), (4, 2), (1, 1)]


def test_room_is_made_for_the_more_important():
    # At 5 E needs a whole server. B, which comes later in the list, moves beside A.
    found = charted(WIDE, cluster(2, 2), MakesRoom(wide, placer=Consolidated(), round_s=5.0))
    assert found == "Aaaaaaaaaaaa Cc...Bbbbbbb BbbbbEeee Dd...Eeee"
    # Without that E waits until 12, when A and B are gone: the next round is due at 15, but what is
    # free may be had.
    found = charted(WIDE, cluster(2, 2), Told(wide, placer=Consolidated(), round_s=5.0))
    assert found == "AaaaaaaaaaaaEeee Cc..........Eeee Bbbbbbbbbbbb Dd"


def test_what_is_left_over_goes_to_whom_the_list_left_out():
    # Until 10 the list names A alone; B has the GPU left over, and keeps it at every round.
    def say(now_s: float) -> Shares:
        return [(0, 1)] if now_s < 10 else [(1, 1)]

    for spare, drawing in ((True, "Aa Bb"), (False, "AaBb")):
        told = Told(say, placer=Packed(), round_s=5.0, spare=spare)
        found = charted([Job(0, 1, 10)] * 2, cluster(1, 2), told, restart_s=1.0, column_s=5.0)
        assert found == drawing


def test_a_job_named_twice_is_started_once():
    class Twice(Told):
        def newcomers(self, view: ClusterView) -> list[Share]:
            return [Share(job, gpus) for job in view.queued.tolist() for gpus in (2, 1)]

    traits = elastic([1, 1], [2, 2])
    told = Twice(lambda now_s: [(0, 2), (1, 2)][: 1 + (now_s > 9)], placer=Packed(), round_s=99.0)
    # B comes at 1, finds one GPU and takes it: half as fast.
    jobs = [Job(0, 2, 4), Job(1, 2, 4)]
    assert charted(jobs, cluster(1, 3), told, traits=traits) == "Aaaa*2 .Bbbbbbbb"


def test_rounds_shorter_than_restarts_still_do_work():
    # A and B are to have the GPU by turns of 2 s, and each return costs 5 s. B first runs from 2 to
    # 4. A is back at 4, makes progress from 9 on and gives way at the round at 10, and so on.
    def say(now_s: float) -> Shares:
        return [(int(now_s / 2) % 2, 1)] if now_s < 30 else [(0, 1), (1, 1)]

    told = Told(say, placer=Packed(), round_s=2.0)
    found = charted([Job(0, 1, 9), Job(0, 1, 9)], cluster(1, 1), told, restart_s=5.0)
    assert found.startswith("AaBbAaaaaaBbbbbbA")


def test_a_run_that_cannot_go_on_ends_and_says_so():
    # The only server closes for good: no round after that can help.
    told = Told(always((0, 1)), placer=Packed(), round_s=5.0)
    yard = world([Job(0, 1, 10)], cluster(1, 1), outages=changes((3, 0, Change.CLOSE)))
    with pytest.raises(SimulationError, match="nothing"):
        play(yard, told)


def test_parts_of_gpus_go_where_least_is_left_over():
    # 0.6, 0.3 and 0.3 on a GPU each would leave none for C. B joins A; there D would be too much.
    told = Told(always((0, 1), (1, 1), (2, 1), (3, 1)), placer=Packed(), round_s=5.0)
    traits = parts(600, 300, 1000, 300)
    found = charted([Job(0, 1, 5)] * 4, cluster(1, 3), told, traits=traits, max_tenants=4)
    assert found == "Aaaaa+Bbbbb Ccccc Ddddd"


def test_a_gang_that_grew_goes_beside_other_parts_as_every_gang_does():
    # A has left GPU 0 when D comes for two GPUs: with 0.3 of each it finds room beside B and C.
    told = Told(always((0, 1), (1, 1), (2, 1), (3, 2)), placer=Packed(), round_s=5.0)
    jobs = [Job(0, 1, 2), Job(0, 1, 20), Job(0, 1, 20), Job(5, 1, 20)]
    traits = parts(1000, 600, 500, 300) | elastic([1] * 4, [1, 1, 1, 2])
    found = charted(jobs, cluster(1, 3), told, traits=traits, max_tenants=4)
    assert found == "Aa Bbbbbbbbbbbbbbbbbbbb+.....Dddddddddd Cccccccccccccccccccc+.....Dddddddddd"


class OnTypes(Told):
    def allot(self, view: ClusterView) -> list[Share]:
        return [share._replace(gpu_type=min(share.job, 1)) for share in super().allot(view)]


def test_on_the_type_that_is_meant_they_go_where_least_is_left_over():
    # C is for the second type: it joins B, though it would leave less over beside A.
    told = OnTypes(always((0, 1), (1, 1), (2, 1)), placer=Packed(), round_s=5.0)
    topology = cluster(2, 2, types=("x", "y"))
    yard = {"traits": parts(600, 300, 300), "max_tenants": 4,
            "physics": physics_of(topology, compute_s=(1.0, 1.0))}  # fmt: skip
    found = charted([Job(0, 1, 5)] * 3, topology, told, **yard)
    assert found == "Aaaaa . Bbbbb+Ccccc"
