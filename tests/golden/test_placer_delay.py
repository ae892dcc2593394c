"""Delay: a server, later a rack, later anything."""

import math

import pytest

from sim.errors import GpuYardError
from sim.placers.by_room import Consolidated, Delay, Packed
from sim.protocols import PatientPlacer
from sim.schedulers.orders import Fifo, Srtf
from sim.sharing import NoSharing
from tests.sim.placed import Held, answer
from tests.sim.worlds import Job, attempts, cluster, gantt, play, world

FOUR = cluster(4, 2, servers_per_rack=2)  # servers 0, 1 | 2, 3; GPUs 0 1, 2 3 | 4 5, 6 7


def fifo(placer) -> Fifo:
    return Fifo(placer=placer, sharing=NoSharing(), skip_blocked=True)


def busy(*free: int) -> list[Job]:
    """A job of 50 s for each GPU in order; those of free GPUs are over at 1."""
    return [Job(0, 1, 1 if gpu in free else 50) for gpu in range(8)]


def test_first_a_server_then_a_rack_then_anything():
    # From 1 on GPUs 0, 2 and 4 are free, from 15 on GPU 6 as well; the others for 50 s.
    #            0 1 2       11     15    19
    # rack 0  0  A           IIIIIIIIIIIIII...   I waits 10 s for a server, then takes rack 0
    #         2  C           IIIIIIIIIIIIII...
    # rack 1  4  E                  JJJJJJ       J's timer has run out at 12; a rack is there at 15
    #         6  GGGGGGGGGGGGGGGGGGGJJJJJJ
    trace = [*busy(0, 2, 4), Job(1, 2, 40), Job(2, 2, 4)]
    trace[6] = Job(0, 1, 15)
    run = play(world(trace, FOUR), fifo(Delay(rack_wait_s=10, anywhere_wait_s=20)))
    assert gantt(run)["I"] == (11, 51, (0, 2))
    assert gantt(run)["J"] == (15, 19, (4, 6))
    # Its relatives: one never waits, the other always does.
    assert gantt(play(world(trace, FOUR), fifo(Packed())))["I"] == (1, 41, (0, 2))
    assert gantt(play(world(trace, FOUR), fifo(Consolidated())))["I"][0] == 50


def test_anything_after_the_second_timer():
    # GPUs 0 and 4 are free at 1, in different racks: at 1 + 20 the job gives up on a rack.
    run = play(
        world([*busy(0, 4), Job(1, 2, 4)], FOUR), fifo(Delay(rack_wait_s=5, anywhere_wait_s=20))
    )
    assert gantt(run)["I"] == (21, 25, (0, 4))


def test_infinite_timers_are_consolidation():
    trace = [*busy(0, 2, 4), Job(1, 2, 4)]
    run = play(world(trace, FOUR), fifo(Delay(rack_wait_s=math.inf, anywhere_wait_s=math.inf)))
    assert gantt(run)["I"] == gantt(play(world(trace, FOUR), fifo(Consolidated())))["I"]


def test_who_fits_no_server_or_no_rack_does_not_wait_for_one():
    placer = Delay(rack_wait_s=10, anywhere_wait_s=20)
    # Three workers fit no server: a rack at once, the one with the fewest sufficient GPUs.
    assert answer(placer, 3, FOUR, [Held((0,))]) == (2, 3, 1)
    assert answer(placer, 3, FOUR, [Held((0, 2)), Held((4, 6))]) is None  # that takes its time
    # Five fit no rack: anything at once, the emptiest rack first.
    assert answer(placer, 5, FOUR, [Held((0,))]) == (4, 5, 6, 7, 2)


def test_of_servers_and_racks_the_tightest():
    placer = Delay(rack_wait_s=0, anywhere_wait_s=0)
    assert answer(placer, 1, FOUR, [Held((5,))]) == (4,)
    held = [Held((1, 3)), Held((4,))]  # rack 0 has two free, rack 1 three
    assert answer(placer, 2, FOUR, held) == (6, 7)
    assert answer(placer, 2, FOUR, [Held((1, 3)), Held((4, 6))]) == (0, 2)


def test_service_is_no_wait():
    # SRTF, a rack after 6 s. A gives way to D at 10 and has waited 0 s then, though it came at 0.
    #                  0         10  14 16
    # server 0  GPU 0  BBBBBBBBBBBBBBB.AAAAA...   GPUs 0 and 3 are free from 15 on, but A's wait is
    #           GPU 1  CCCCCCCCCCCCCCCCCCCCCCCC   over at 16: 10 + 6, not 0 + 6
    # server 1  GPU 2  AAAAAAAAAADDDDEEEEE
    #           GPU 3  AAAAAAAAAADDDD..AAAAA...
    trace = [Job(0, 2, 30), Job(0, 1, 15), Job(0, 1, 25), Job(10, 2, 4), Job(14, 1, 5)]
    topology = cluster(2, 2, servers_per_rack=2)
    placer = Delay(rack_wait_s=6, anywhere_wait_s=6)
    assert isinstance(placer, PatientPlacer)
    run = play(world(trace, topology), Srtf(placer=placer, sharing=NoSharing()))
    assert attempts(run.log)["A"] == [(0, 10, (2, 3)), (16, 36, (0, 3))]


@pytest.mark.parametrize(
    ("rack_s", "anywhere_s", "message"),
    [
        (-1, 5, "rack_wait_s is -1; it must be 0 or more"),
        (math.nan, 5, "rack_wait_s is nan"),
        (6, 5, "anywhere_wait_s is 5; it must be at least rack_wait_s, which is 6"),
    ],
)
def test_wrong_timers_are_refused(rack_s, anywhere_s, message):
    with pytest.raises(GpuYardError, match=message):
        Delay(rack_wait_s=rack_s, anywhere_wait_s=anywhere_s)
