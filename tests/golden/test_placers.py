"""Placement rules on strict FIFO: who gets which GPUs."""

from collections import Counter

import numpy as np
import pytest

from sim.placers.by_room import Consolidated, FirstFit, LeastLoaded, Packed, Random, WorstFit
from sim.protocols import Placer
from sim.run import Run
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from sim.topology.generators import leaf_spine
from sim.topology.topology import Topology
from tests.sim.worlds import Job, cluster, gantt, physics_of, play, world

# A and C (10 s) end up on different servers, D wants two GPUs from 2 on.
SPLIT = [Job(0, 1, 10), Job(0, 1, 6), Job(1, 1, 20), Job(2, 2, 4)]


def fifo_run(
    trace: list[Job], topology: Topology, placer: Placer, seed: int = 0, slow_network: bool = False
) -> Run:
    scheduler = Fifo(placer=placer, sharing=NoSharing(), skip_blocked=False)
    cross = (0.0, 0.0, *[1.0] * (topology.num_servers - 1)) if slow_network else None
    physics = physics_of(topology, server_s=cross)
    return play(world(trace, topology, physics=physics), scheduler, seed)


def gpus_of(trace: list[Job], topology: Topology, placer: Placer, seed: int = 0) -> list[tuple]:
    return [gpus for _, _, gpus in sorted_rows(fifo_run(trace, topology, placer, seed))]


def sorted_rows(run: Run) -> list[tuple]:
    return [row for _, row in sorted(gantt(run).items())]


def test_consolidated_waits_for_one_server():
    #               0     6   10  14     20
    # server 0  0   AAAAAAAAAADDDD
    #           1   BBBBBB....DDDD           at 6 GPUs 1 and 3 are free: D waits
    # server 1  2    CCCCCCCCCCCCCCCCCCCC
    run = fifo_run(SPLIT, cluster(2, 2), Consolidated(), slow_network=True)
    assert gantt(run)["D"] == (10, 14, (0, 1))


def test_packed_does_not_wait_and_pays_for_the_spread():
    # D starts at 6 on both servers, at half speed: a step takes 1 s, and 1 s across servers.
    #               0     6       14
    # server 0  1   BBBBBBDDDDDDDD
    # server 1  3   ......DDDDDDDD
    run = fifo_run(SPLIT, cluster(2, 2), Packed(), slow_network=True)
    assert gantt(run)["D"] == (6, 14, (1, 3))


@pytest.mark.parametrize("placer", [Consolidated(), Packed()])
def test_compact_placements_are_best_fit_and_whole_servers_first(placer: Placer):
    # A: all servers have 2 free, the lowest. B (3 GPUs): a whole server, the lowest empty one
    # (1), and the rest where fewest free GPUs suffice (server 0 has one).
    assert gpus_of([Job(0, 1, 9), Job(0, 3, 9)], cluster(3, 2), placer) == [(0,), (1, 2, 3)]
    # Best fit: C joins A's server (1 free), not an empty one.
    assert gpus_of([Job(0, 1, 9), Job(0, 2, 9), Job(0, 1, 9)], cluster(3, 2), placer) == [
        (0,), (2, 3), (1,),
    ]  # fmt: skip


def mixed(*gpus_per_server: int) -> Topology:
    return leaf_spine(
        name="mixed", servers=len(gpus_per_server), gpus_per_server=list(gpus_per_server),
        servers_per_rack=8, gpu_types=["x"], intra_gbps=80.0, nic_gbps=10.0, oversubscription=2.0,
    )  # fmt: skip


def test_consolidated_does_not_wait_for_servers_that_do_not_exist():
    # There is no second server of 4 for 8 GPUs: all three it is.
    assert gpus_of([Job(0, 8, 5)], mixed(4, 1, 3), Consolidated()) == [(0, 1, 2, 3, 4, 5, 6, 7)]
    # 5 GPUs are two whole servers of 2 and the rest on one more; 6 would be three of 2.
    yard = mixed(2, 1, 1, 2)
    assert gpus_of([Job(0, 5, 5)], yard, Consolidated()) == [(0, 1, 2, 4, 5)]
    assert gpus_of([Job(0, 6, 5)], yard, Consolidated()) == [(0, 1, 2, 3, 4, 5)]


def test_consolidated_waits_for_the_fewest_of_unequal_servers():
    # Servers of 3, 2, 2 (GPUs 0-2, 3-4, 5-6). B's 6 GPUs need all three: it waits for A.
    rows = gantt(fifo_run([Job(0, 2, 7), Job(0, 6, 5)], mixed(3, 2, 2), Consolidated()))
    assert rows == {"A": (0, 7, (3, 4)), "B": (7, 12, (0, 1, 2, 3, 4, 5))}


def test_first_fit_takes_the_lowest_ids_across_servers():
    trace = [Job(0, 1, 9), Job(0, 2, 9)]
    assert gpus_of(trace, cluster(3, 2), FirstFit()) == [(0,), (1, 2)]
    assert gpus_of(trace, cluster(3, 2), Packed()) == [(0,), (2, 3)]


def test_worst_fit_fills_the_emptiest_server_first():
    # Free per server: A 2 2 2 -> 0; B 1 2 2 -> 1; C 1 1 2 -> all of 2, then 0 (tie with 1).
    trace = [Job(0, 1, 9), Job(0, 1, 9), Job(0, 3, 9)]
    assert gpus_of(trace, cluster(3, 2), WorstFit()) == [(0,), (2,), (1, 4, 5)]
    # Packed puts B beside A, and C on the whole server 1 and one GPU of 2.
    assert gpus_of(trace, cluster(3, 2), Packed()) == [(0,), (1,), (2, 3, 4)]


def test_least_loaded_deals_worker_by_worker_and_worst_fit_differs():
    # B: loads 1/2 and 1/2 -> server 0; then 1 and 1/2 -> server 1.
    trace = [Job(0, 2, 9), Job(0, 2, 9)]
    assert gpus_of(trace, cluster(2, 2), LeastLoaded()) == [(0, 2), (1, 3)]
    assert gpus_of(trace, cluster(2, 2), WorstFit()) == [(0, 1), (2, 3)]


def test_random_repeats_with_its_seed_and_draws_every_pair_equally_often():
    topology, trace = cluster(2, 2), [Job(10.0 * i, 2, 5) for i in range(20)]
    runs = [gpus_of(trace, topology, Random(), seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    counts = Counter(
        pair for seed in range(30) for pair in gpus_of(trace, topology, Random(), seed)
    )
    assert len(counts) == 6  # all pairs of four GPUs
    assert np.all(np.abs(np.array(list(counts.values())) - 100) < 40)  # 600 draws, 4 sigma
