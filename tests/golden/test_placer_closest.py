"""Closest GPUs: where the seed is, and what is near it."""

import pytest

from sim.placers.by_room import Closest, Packed
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from tests.sim.placed import Held, answer
from tests.sim.worlds import Job, cluster, gantt, play, world

FOUR = cluster(4, 4, servers_per_rack=2)  # servers 0, 1 | 2, 3; GPUs 0-3, 4-7 | 8-11, 12-15


def test_a_gang_that_fits_a_server_goes_to_the_fullest_rack_that_has_one():
    # Rack 1 has 6 free GPUs, rack 0 has 7: in rack 1 the tightest server with two.
    held = [Held((0,)), Held((8, 9))]
    assert answer(Closest(), 2, FOUR, held) == (10, 11)
    assert answer(Packed(), 2, FOUR, held) == (10, 11)
    # Rack 1 has 4, all on server 3; server 0 is as tight, and packed takes it.
    held = [Held((8, 9, 10, 11))]
    assert answer(Closest(), 2, FOUR, held) == (12, 13)
    assert answer(Packed(), 2, FOUR, held) == (0, 1)


def test_else_to_the_emptiest_rack_then_to_its_emptiest_server():
    # Rack 1 (3 free) has no server with four, rack 0 has server 1.
    assert answer(Closest(), 4, FOUR, [Held((0,)), Held((8, 9, 10, 11, 12))]) == (4, 5, 6, 7)
    # Nobody has four. Rack 1 (4 free) is the emptiest: both its servers, though server 0 has three.
    held = [Held((0, 4, 5, 6, 7)), Held((8, 9, 12, 13))]
    assert answer(Closest(), 4, FOUR, held) == (10, 11, 14, 15)
    assert answer(Packed(), 4, FOUR, held) == (1, 2, 3, 10)


def test_a_large_gang_begins_on_the_emptiest_server_of_the_emptiest_rack():
    # Rack 1: server 3 has four, server 2 three. Then the nearest, by id.
    held = [Held((0, 1)), Held((8,))]
    assert answer(Closest(), 6, FOUR, held) == (12, 13, 14, 15, 9, 10)
    assert answer(Closest(), 9, FOUR, held) == (12, 13, 14, 15, 9, 10, 11, 2, 3)


def test_a_single_worker_fills_the_fullest_rack():
    assert answer(Closest(), 1, FOUR, [Held((0,)), Held((8, 9, 12))]) == (10,)
    assert answer(Closest(), 14, FOUR, [Held((0,)), Held((8, 9, 12))]) is None


@pytest.mark.parametrize(("placer", "gpus"), [(Closest(), (4, 5)), (Packed(), (0, 1))])
def test_whole_run(placer, gpus):
    # At 3 servers 0, 1 and 2 are empty. Rack 1 is the fuller one: E goes beside D there.
    #                  0  3   7  10
    # rack 0  GPU 0, 1 AAA
    #             2, 3 BBB
    # rack 1      4, 5 CCCEEEE
    #             6, 7 DDDDDDDDDD
    topology = cluster(4, 2, servers_per_rack=2)
    trace = [Job(0, 2, 3), Job(0, 2, 3), Job(0, 2, 3), Job(0, 2, 10), Job(3, 2, 4)]
    run = play(world(trace, topology), Fifo(placer=placer, sharing=NoSharing(), skip_blocked=True))
    assert gantt(run)["D"] == (0, 10, (6, 7))
    assert gantt(run)["E"] == (3, 7, gpus)
