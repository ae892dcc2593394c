"""FIFO, strict and skipping."""

from sim.placers.by_room import FirstFit
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

TRACE = [Job(0, 1, 10), Job(1, 2, 5), Job(2, 1, 3)]


def fifo(*, skip_blocked: bool) -> Fifo:
    return Fifo(placer=FirstFit(), sharing=NoSharing(), skip_blocked=skip_blocked)


def test_a_blocked_head_blocks_the_queue():
    #         0    5    10   15   20
    # GPU 0   AAAAAAAAAABBBBBCCC
    # GPU 1   ..........BBBBB        B wants both GPUs; C waits behind B
    run = play(world(TRACE, cluster(1, 2)), fifo(skip_blocked=False))
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (10, 15, (0, 1)), "C": (15, 18, (0,))}
    assert run.scheduler == "fifo+first_fit"


def test_fifo_skip_differs_those_behind_may_start():
    #         0    5    10   15
    # GPU 0   AAAAAAAAAABBBBB
    # GPU 1   ..CCC.....BBBBB
    run = play(world(TRACE, cluster(1, 2)), fifo(skip_blocked=True))
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (10, 15, (0, 1)), "C": (2, 5, (1,))}
    assert run.scheduler == "fifo_skip+first_fit"


def test_jobs_of_one_instant_start_in_order_of_rows():
    #         0  3  6
    # GPU 0   AAABBBCCC
    run = play(world([Job(0, 1, 3)] * 3, cluster(1, 1)), fifo(skip_blocked=False))
    assert gantt(run) == {"A": (0, 3, (0,)), "B": (3, 6, (0,)), "C": (6, 9, (0,))}
