"""Placers that look at what is free alone: who gets which GPUs."""

from collections import Counter

import numpy as np
import pytest

from sim.placers.by_room import (
    BestFit,
    Closest,
    Consolidated,
    FirstFit,
    LeastLoaded,
    Packed,
    Random,
    WorstFit,
)
from sim.protocols import Placer
from sim.topology.topology import Topology
from tests.sim.placed import Held, answer
from tests.sim.worlds import Job, charted, cluster, fifo, gantt, physics_of, play, world

# A and C (10 s) end up on different servers, D wants two GPUs from 2 on.
SPLIT = [Job(0, 1, 10), Job(0, 1, 6), Job(1, 1, 20), Job(2, 2, 4)]
# E (two GPUs) comes at 3; GPUs 1 and 3 are free at 5.
NEVER_WAITS = [Job(0, 1, 9), Job(0, 1, 2), Job(0, 1, 9), Job(0, 1, 5), Job(3, 2, 2)]


@pytest.mark.parametrize(
    ("placer", "jobs", "across_s", "drawing"),
    [
        # At 6 GPUs 1 and 3 are free: D waits.
        (Consolidated(), SPLIT, 1.0, "AaaaaaaaaaDddd Bbbbbb....Dddd .Cccccccccccccccccccc"),
        # It starts at 6 at half speed: a step takes 1 s, and 1 s across servers.
        (Packed(), SPLIT, 1.0, "Aaaaaaaaaa BbbbbbDddddddd .Cccccccccccccccccccc ......Dddddddd"),
        (BestFit(), NEVER_WAITS, 0.0, "Aaaaaaaaa Bb...Ee Ccccccccc DddddEe"),
        (Consolidated(), NEVER_WAITS, 0.0, "AaaaaaaaaEe Bb.......Ee Ccccccccc Ddddd"),
    ],
)
def test_some_wait_for_one_server_and_some_never(placer, jobs, across_s, drawing):
    physics = physics_of(cluster(2, 2), server_s=(0.0, 0.0, across_s))
    strict = fifo(placer, skip_blocked=False)
    assert charted(jobs, cluster(2, 2), strict, physics=physics) == drawing


def gpus_of(gangs: list[int], topology: Topology, placer: Placer) -> list[tuple[int, ...]]:
    """GPUs of gangs that come at once, one after the other."""
    jobs = [Job(0, gang, 9) for gang in gangs]
    run = play(world(jobs, topology), fifo(placer, skip_blocked=False))
    return [gpus for _, (_, _, gpus) in sorted(gantt(run).items())]


THREE = cluster(3, 2)


@pytest.mark.parametrize(
    ("placers", "gangs", "gpus"),
    [
        # A: all servers have 2 free, the lowest. B (3 GPUs): a whole server, the lowest empty one
        # (1), and the rest where fewest free GPUs suffice (server 0 has one).
        ((Consolidated(), Packed()), [1, 3], [(0,), (1, 2, 3)]),
        # Best fit: C joins A's server (1 free), not an empty one.
        ((Consolidated(), Packed()), [1, 2, 1], [(0,), (2, 3), (1,)]),
        ((FirstFit(),), [1, 2], [(0,), (1, 2)]),  # the lowest ids across servers
        ((Packed(),), [1, 2], [(0,), (2, 3)]),
        # Free per server: A 2 2 2 -> 0; B 1 2 2 -> 1; C 1 1 2 -> all of 2, then 0 (tie with 1).
        ((WorstFit(),), [1, 1, 3], [(0,), (2,), (1, 4, 5)]),
        # Packed puts B beside A, and C on the whole server 1 and one GPU of 2.
        ((Packed(),), [1, 1, 3], [(0,), (1,), (2, 3, 4)]),
    ],
)
def test_what_gangs_get_on_three_servers_of_two(placers, gangs, gpus):
    assert [gpus_of(gangs, THREE, placer) for placer in placers] == [gpus] * len(placers)


def test_least_loaded_deals_worker_by_worker_and_worst_fit_differs():
    # B: loads 1/2 and 1/2 -> server 0; then 1 and 1/2 -> server 1.
    assert gpus_of([2, 2], cluster(2, 2), LeastLoaded()) == [(0, 2), (1, 3)]
    assert gpus_of([2, 2], cluster(2, 2), WorstFit()) == [(0, 1), (2, 3)]


def test_consolidated_does_not_wait_for_servers_that_do_not_exist():
    # There is no second server of 4 for 8 GPUs: all three it is.
    assert gpus_of([8], cluster(3, [4, 1, 3]), Consolidated()) == [(0, 1, 2, 3, 4, 5, 6, 7)]
    # 5 GPUs are two whole servers of 2 and the rest on one more; 6 would be three of 2.
    yard = cluster(4, [2, 1, 1, 2])
    assert gpus_of([5], yard, Consolidated()) == [(0, 1, 2, 4, 5)]
    assert gpus_of([6], yard, Consolidated()) == [(0, 1, 2, 3, 4, 5)]


def test_consolidated_waits_for_the_fewest_of_unequal_servers():
    # Servers of 3, 2, 2 (GPUs 0-2, 3-4, 5-6). B's 6 GPUs need all three: it waits for A.
    jobs = [Job(0, 2, 7), Job(0, 6, 5)]
    found = charted(jobs, cluster(3, [3, 2, 2]), fifo(Consolidated(), skip_blocked=False))
    assert found == ".......Bbbbb*3 AaaaaaaBbbbb*2 .......Bbbbb"


def test_random_repeats_with_its_seed_and_draws_every_pair_equally_often():
    trace = [Job(10.0 * i, 2, 5) for i in range(20)]
    runs = [play(world(trace, cluster(2, 2)), fifo(Random()), seed) for seed in (1, *range(30))]
    drawn = [[gpus for _, (_, _, gpus) in sorted(gantt(run).items())] for run in runs]
    assert drawn[0] == drawn[2] != drawn[3]
    counts = Counter(pair for of_run in drawn[1:] for pair in of_run)
    assert len(counts) == 6  # all pairs of four GPUs
    assert np.all(np.abs(np.array(list(counts.values())) - 100) < 40)  # 600 draws, 4 sigma


TIGHT = cluster(3, 4)
HELD = [Held((0, 1, 2)), Held((4, 5))]  # server 0 has one GPU left, server 1 two, server 2 all four
FOUR = cluster(4, 4, servers_per_rack=2)  # servers 0, 1 | 2, 3; GPUs 0-3, 4-7 | 8-11, 12-15


@pytest.mark.parametrize(
    ("topology", "held", "gang", "gpus", "relative", "its_gpus"),
    [
        (TIGHT, HELD, 1, (3,), None, None),  # best fit: the fewest sufficient GPUs
        (TIGHT, HELD, 2, (6, 7), FirstFit(), (3, 6)),
        (TIGHT, HELD, 4, (8, 9, 10, 11), None, None),
        # Five workers: one on server 0, two on server 1, two on server 2, which keeps two.
        (TIGHT, HELD, 5, (3, 6, 7, 8, 9), Packed(), (8, 9, 10, 11, 3)),  # as compact as can be
        (TIGHT, HELD, 8, None, None, None),
        # Closest: rack 1 has 6 free GPUs, rack 0 has 7: in rack 1 the tightest server with two.
        (FOUR, [Held((0,)), Held((8, 9))], 2, (10, 11), Packed(), (10, 11)),
        # Rack 1 has 4, all on server 3; server 0 is as tight, and packed takes it.
        (FOUR, [Held((8, 9, 10, 11))], 2, (12, 13), Packed(), (0, 1)),
        # Rack 1 (3 free) has no server with four, rack 0 has server 1.
        (FOUR, [Held((0,)), Held((8, 9, 10, 11, 12))], 4, (4, 5, 6, 7), None, None),
        # Nobody has four. Rack 1 (4 free) is the emptiest: both its servers, though 0 has three.
        (FOUR, [Held((0, 4, 5, 6, 7)), Held((8, 9, 12, 13))], 4, (10, 11, 14, 15), Packed(),
         (1, 2, 3, 10)),
        # A large gang begins in rack 1: server 3 has four, server 2 three. Then the nearest, by id.
        (FOUR, [Held((0, 1)), Held((8,))], 6, (12, 13, 14, 15, 9, 10), None, None),
        (FOUR, [Held((0, 1)), Held((8,))], 9, (12, 13, 14, 15, 9, 10, 11, 2, 3), None, None),
        # A single worker fills the fullest rack.
        (FOUR, [Held((0,)), Held((8, 9, 12))], 1, (10,), None, None),
        (FOUR, [Held((0,)), Held((8, 9, 12))], 14, None, None, None),
    ],
)  # fmt: skip
def test_best_fit_and_closest_beside_their_relatives(
    topology, held, gang, gpus, relative, its_gpus
):
    placer = BestFit() if topology is TIGHT else Closest()
    assert answer(placer, gang, topology, held) == gpus
    assert relative is None or answer(relative, gang, topology, held) == its_gpus


@pytest.mark.parametrize(
    ("placer", "drawing"),
    [
        (Closest(), "Aaa*2 Bbb*2 CccEeee*2 Dddddddddd*2"),
        (Packed(), "AaaEeee*2 Bbb*2 Ccc*2 Dddddddddd*2"),
    ],
)
def test_a_whole_run_of_closest(placer: Placer, drawing: str):
    # At 3 servers 0, 1 and 2 are empty. Rack 1 is the fuller one: E goes beside D there.
    trace = [Job(0, 2, 3), Job(0, 2, 3), Job(0, 2, 3), Job(0, 2, 10), Job(3, 2, 4)]
    assert charted(trace, cluster(4, 2, servers_per_rack=2), fifo(placer)) == drawing
