"""Routing between partitions, on FIFO with first fit: one server a partition."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from sim.engine.composed import PartitionedScheduler
from sim.forwarding import (
    LeastLoadedForwarding,
    OwnOnly,
    OwnThenLeastLoaded,
    RandomForwarding,
    Steal,
)
from sim.jobs import Demands, Precedence
from sim.placers.by_room import FirstFit
from sim.protocols import Forwarding
from sim.run import Kind, Run
from sim.schedulers.orders import Fifo
from sim.sharing import NoSharing
from tests.sim.worlds import Job, cluster, gantt, play, world

TRACE = [Job(0, 1, 10), Job(1, 1, 4), Job(2, 1, 4)]  # all arrive at partition 0


def run_with(
    forwarding: Forwarding, trace: list[Job], *, gpus_per_server: int = 1, max_forwards: int = 3,
    seed: int = 0, types: Sequence[str] = ("x",), traits: Mapping[str, Any] | None = None,
) -> Run:  # fmt: skip
    child = Fifo(placer=FirstFit(), sharing=NoSharing(), skip_blocked=False)
    scheduler = PartitionedScheduler(child=child, forwarding=forwarding)
    simulator = world(
        trace, cluster(2, gpus_per_server, types=types), partitions=2, max_forwards=max_forwards,
        traits=traits,
    )  # fmt: skip
    return play(simulator, scheduler, seed)


def test_own_leaves_the_other_partition_idle():
    #         0         10  14  18
    # GPU 0   AAAAAAAAAABBBBCCCC
    # GPU 1   ..................
    run = run_with(OwnOnly(), TRACE)
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (10, 14, (0,)), "C": (14, 18, (0,))}
    assert run.scheduler == "fifo+first_fit+own"


def test_least_loaded_binds_at_arrival():
    # B: 1 GPU wanted at home, 0 there: away. C: 1 and 1, home wins; it then waits beside an idle
    # GPU 1 from 5 on.
    #         0 1   5   10  14
    # GPU 0   AAAAAAAAAACCCC
    # GPU 1    BBBB
    run = run_with(LeastLoadedForwarding(), TRACE)
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (1, 5, (1,)), "C": (10, 14, (0,))}
    assert run.forwards.tolist() == [0, 1, 0]


def test_steal_differs_it_binds_late():
    #         0 1   5   9 10
    # GPU 0   AAAAAAAAAA
    # GPU 1    BBBBCCCC
    run = run_with(Steal(), TRACE)
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (1, 5, (1,)), "C": (5, 9, (1,))}
    assert run.forwards.tolist() == [0, 1, 1]
    assert run.partition.tolist() == [0, 1, 1]
    moved = run.log.kind == Kind.FORWARD
    assert run.log.time_s[moved].tolist() == [1, 5]


def test_without_forwards_stealing_is_own():
    run = run_with(Steal(), TRACE, max_forwards=0)
    assert gantt(run) == gantt(run_with(OwnOnly(), TRACE))


def test_own_then_least_loaded_stays_where_it_fits_and_least_loaded_does_not():
    # Two GPUs a partition: B fits at home (GPU 1), though partition 1 is emptier (GPU 2).
    stays = run_with(OwnThenLeastLoaded(), TRACE[:2], gpus_per_server=2)
    assert gantt(stays)["B"] == (1, 5, (1,))
    goes = run_with(LeastLoadedForwarding(), TRACE[:2], gpus_per_server=2)
    assert gantt(goes)["B"] == (1, 5, (2,))
    # One GPU each: B does not fit, and goes.
    assert gantt(run_with(OwnThenLeastLoaded(), TRACE))["B"] == (1, 5, (1,))


def test_random_uses_both_partitions_evenly_and_repeats_with_its_seed():
    trace = [Job(10.0 * i, 1, 5) for i in range(20)]
    runs = [run_with(RandomForwarding(), trace, seed=seed) for seed in (3, 3)]
    assert gantt(runs[0]) == gantt(runs[1])
    counts = Counter(
        partition
        for seed in range(20)
        for partition in run_with(RandomForwarding(), trace, seed=seed).partition.tolist()
    )
    assert abs(counts[0] - 200) < 40 and counts[0] + counts[1] == 400  # 4 sigma


def test_children_are_routed_when_their_parents_are_done():
    # B, which A is the parent of, is ready at 10: D waits at home since 5, the other is empty.
    #         0 2    7  10        20
    # GPU 0   AAAAAAAAAADDDDDDDDDD
    # GPU 1     CCCCC   BBBB
    trace = [Job(0, 1, 10), Job(1, 1, 4), Job(2, 1, 5), Job(5, 1, 10)]
    of_b = Precedence(np.array([0, 0, 1, 1, 1]), np.array([0]), np.array([0, 0, -1, -1]))
    run = run_with(LeastLoadedForwarding(), trace, traits={"precedence": of_b})
    assert gantt(run) == {
        "A": (0, 10, (0,)), "B": (10, 14, (1,)), "C": (2, 7, (1,)), "D": (10, 20, (0,)),
    }  # fmt: skip


@pytest.mark.parametrize(
    "forwarding", [LeastLoadedForwarding, OwnThenLeastLoaded, RandomForwarding]
)
def test_jobs_go_nowhere_they_could_never_run(forwarding):
    # All ask for type x, which only the home has.
    x = Demands(*(np.full(3, n) for n in (1000, 0, 0, 1)))
    run = run_with(forwarding(), TRACE, types=("x", "y"), traits={"demands": x})
    assert gantt(run) == {"A": (0, 10, (0,)), "B": (10, 14, (0,)), "C": (14, 18, (0,))}
    assert not run.forwards.any()
