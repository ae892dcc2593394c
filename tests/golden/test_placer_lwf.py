"""LWF-kappa: the GPUs, or servers, with least predicted work left."""

import pytest

from sim.errors import GpuYardError, SignalError
from sim.placers.by_job import Lwf
from sim.placers.by_room import LeastLoaded
from sim.schedulers.orders import Fifo
from sim.sharing import AlwaysShare
from sim.view import Signal
from tests.sim.placed import Held, answer
from tests.sim.worlds import Job, cluster, gantt, play, world

TWO = cluster(2, 3)
# At 1 GPU 0 has 49 s left, GPU 1 has 4 s, GPU 3 has 9 s and 9 s, GPU 4 has 9 s.
HELD = [Held((0,), 50), Held((1,), 5), Held((3, 4), 10), Held((3,), 10)]


def test_up_to_kappa_the_gpus_with_least_work_anywhere():
    assert answer(Lwf(kappa=1), 1, TWO, HELD, shared=True) == (2,)
    assert answer(Lwf(kappa=4), 3, TWO, HELD, shared=True) == (2, 5, 1)
    assert answer(Lwf(kappa=4), 4, TWO, HELD, shared=True) == (2, 5, 1, 4)


def test_above_kappa_the_servers_with_least_work_and_their_idlest_gpus_first():
    # Server 0 has 53 s, server 1 has 27 s; GPU 3 is full (two tenants).
    assert answer(Lwf(kappa=1), 2, TWO, HELD, shared=True) == (5, 4)
    # Three have room on server 0 alone; four have it nowhere.
    assert answer(Lwf(kappa=1), 3, TWO, HELD, shared=True) == (2, 1, 0)
    assert answer(Lwf(kappa=1), 4, TWO, HELD, shared=True) == (5, 4, 2, 1)
    # The number of tenants, which least_loaded counts, says another thing.
    assert answer(LeastLoaded(), 2, TWO, HELD, shared=True) == (2, 0)


def test_work_counts_and_not_tenants():
    #           0        9 10          C joins the job with 8 s left, not the one with 98 s
    # GPU 0     AAAAAAAAAA...
    # GPU 1     BBBBBBBBBB
    #             CCCCCC
    trace = [Job(0, 1, 100), Job(0, 1, 10), Job(2, 1, 6)]
    rules = {"sharing": AlwaysShare(), "skip_blocked": True}
    run = play(world(trace, cluster(1, 2), max_tenants=2), Fifo(placer=Lwf(kappa=1), **rules))
    assert gantt(run)["C"] == (2, 8, (1,))
    other = play(world(trace, cluster(1, 2), max_tenants=2), Fifo(placer=LeastLoaded(), **rules))
    assert gantt(other)["C"] == (2, 8, (0,))


def test_jobs_started_a_moment_ago_count_like_those_that_wait():
    # Both start at 0: the second sees somebody on GPU 0, though the view does not show who.
    run = play(
        world([Job(0, 1, 5), Job(0, 1, 5)], cluster(1, 2), max_tenants=2),
        Fifo(placer=Lwf(kappa=1), sharing=AlwaysShare(), skip_blocked=True),
    )
    assert gantt(run) == {"A": (0, 5, (0,)), "B": (0, 5, (1,))}


@pytest.mark.parametrize("kappa", [-1, 1.5, None])
def test_a_wrong_kappa_is_refused(kappa):
    with pytest.raises(GpuYardError, match=r"placer.kappa is .*whole number, 0 or more"):
        Lwf(kappa=kappa)


def test_it_needs_predictions():
    placer = Lwf(kappa=1)
    placer.needs = Signal.NONE
    scheduler = Fifo(placer=placer, sharing=AlwaysShare(), skip_blocked=True)
    with pytest.raises(SignalError, match="PREDICTION"):
        play(world([Job(0, 1, 5)], cluster(1, 2)), scheduler)
