"""Routing between partitions, on FIFO with first fit: one server a partition."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sim.engine.composed import PartitionedScheduler
from sim.forwarding import (
    LeastLoadedForwarding,
    OwnOnly,
    OwnThenLeastLoaded,
    RandomForwarding,
    Steal,
)
from sim.protocols import Forwarding
from sim.run import Kind, Run
from tests.sim.worlds import Job, chart, cluster, demands, fifo, gantt, play, waiting, world

TRACE = [Job(0, 1, 10), Job(1, 1, 4), Job(2, 1, 4)]  # all arrive at partition 0


def run_with(
    forwarding: Forwarding, trace: list[Job], *, gpus_per_server: int = 1, max_forwards: int = 3,
    seed: int = 0, types: Sequence[str] = ("x",), traits: Mapping[str, Any] | None = None,
) -> Run:  # fmt: skip
    child = fifo(skip_blocked=False)
    scheduler = PartitionedScheduler(child=child, forwarding=forwarding)
    simulator = world(
        trace, cluster(2, gpus_per_server, types=types), partitions=2, max_forwards=max_forwards,
        traits=traits,
    )  # fmt: skip
    return play(simulator, scheduler, seed)


@pytest.mark.parametrize(
    ("forwarding", "max_forwards", "drawing", "forwards"),
    [
        (OwnOnly(), 3, "AaaaaaaaaaBbbbCccc", [0, 0, 0]),
        (Steal(), 0, "AaaaaaaaaaBbbbCccc", [0, 0, 0]),
        # B: 1 GPU wanted at home, 0 there: away. C: 1 and 1, home wins; it then waits beside an
        # idle GPU 1 from 5 on.
        (LeastLoadedForwarding(), 3, "AaaaaaaaaaCccc .Bbbb", [0, 1, 0]),
        (OwnThenLeastLoaded(), 3, "AaaaaaaaaaCccc .Bbbb", [0, 1, 0]),
        (Steal(), 3, "Aaaaaaaaaa .BbbbCccc", [0, 1, 1]),  # it binds late
    ],
)
def test_where_jobs_go(forwarding: Forwarding, max_forwards: int, drawing: str, forwards):
    run = run_with(forwarding, TRACE, max_forwards=max_forwards)
    assert (chart(run), run.forwards.tolist()) == (drawing, forwards)


def test_runs_tell_the_rule_and_when_and_where_jobs_went():
    assert run_with(OwnOnly(), TRACE).scheduler == "fifo+first_fit+own"
    run = run_with(Steal(), TRACE)
    assert run.partition.tolist() == [0, 1, 1]
    assert run.log.time_s[run.log.kind == Kind.FORWARD].tolist() == [1, 5]


def test_own_then_least_loaded_stays_where_it_fits_and_least_loaded_does_not():
    # Two GPUs a partition: B fits at home (GPU 1), though partition 1 is emptier (GPU 2).
    for forwarding, gpu in ((OwnThenLeastLoaded(), 1), (LeastLoadedForwarding(), 2)):
        run = run_with(forwarding, TRACE[:2], gpus_per_server=2)
        assert gantt(run)["B"] == (1, 5, (gpu,))


def test_random_uses_both_partitions_evenly_and_repeats_with_its_seed():
    trace = [Job(10.0 * i, 1, 5) for i in range(20)]
    runs = [run_with(RandomForwarding(), trace, seed=seed) for seed in (3, *range(20))]
    assert gantt(runs[0]) == gantt(runs[1 + 3])
    counts = Counter(partition for run in runs[1:] for partition in run.partition.tolist())
    assert abs(counts[0] - 200) < 40 and counts[0] + counts[1] == 400  # 4 sigma


def test_children_are_routed_when_their_parents_are_done():
    # B, which A is the parent of, is ready at 10: D waits at home since 5, the other is empty.
    trace = [Job(0, 1, 10), Job(1, 1, 4), Job(2, 1, 5), Job(5, 1, 10)]
    run = run_with(
        LeastLoadedForwarding(), trace, traits=waiting((), (0,), (), (), workflow=(0, 0, -1, -1))
    )
    assert chart(run) == "AaaaaaaaaaDddddddddd ..Ccccc...Bbbb"


@pytest.mark.parametrize(
    "forwarding", [LeastLoadedForwarding, OwnThenLeastLoaded, RandomForwarding]
)
def test_jobs_go_nowhere_they_could_never_run(forwarding):
    # All ask for type x, which only the home has.
    run = run_with(forwarding(), TRACE, types=("x", "y"), traits=demands(*[(1000, 0, 0, 1)] * 3))
    assert chart(run) == "AaaaaaaaaaBbbbCccc"
    assert not run.forwards.any()
