"""When compiled code may decide, and that it says so of nothing else."""

import numpy as np
import pytest

from sim.outages.changes import NO_OUTAGES, Change
from sim.placers.consolidated import Consolidated
from sim.placers.first_fit import FirstFit
from sim.placers.packed import Packed
from sim.placers.random import Random
from sim.schedulers.fifo import Fifo
from sim.schedulers.sjf import Sjf
from sim.sharing.fallback import FallbackSharing
from sim.sharing.off import NoSharing
from sim.sharing.selective import SelectiveSharing
from sim.simulator import simulate
from sim.topology.leaf_spine import leaf_spine
from sim.traits import ANY_TYPE, Demands
from tests.compiled.playing import asking
from tests.sim.worlds import Job, attempts, changes, cluster, physics_of, world

JOBS = [Job(0.0, 2, 10.0), Job(1.0, 1, 5.0), Job(1.0, 2, 0.0)]


def fifo(placer=Packed, sharing=NoSharing) -> Fifo:
    return Fifo(placer=placer(), sharing=sharing(), skip_blocked=False)


def test_a_scheduler_with_codes_on_a_plain_cluster():
    assert world(JOBS, cluster(2, 2)).plan_of(fifo()) is not None


def test_python_decides_where_the_cluster_is_divided():
    assert world(JOBS, cluster(2, 2), partitions=2).plan_of(fifo()) is None


def test_python_decides_for_placers_without_a_code():
    assert world(JOBS, cluster(2, 2)).plan_of(fifo(placer=Random)) is None


def test_a_subclass_may_decide_otherwise_so_its_parents_code_is_void():
    class Backwards(Fifo):
        def order(self, view):
            return view.queued[::-1]

    class LastFit(FirstFit):
        def place(self, gang, slots, rng):  # noqa: ARG002  (the role asks for it)
            return np.flatnonzero(slots.usable)[-gang:]

    simulator = world(JOBS, cluster(2, 2))
    assert simulator.plan_of(fifo(placer=LastFit)) is None
    backwards = Backwards(placer=Packed(), sharing=NoSharing(), skip_blocked=False)
    assert simulator.plan_of(backwards) is None


def test_python_decides_where_predictions_are_missing():
    sjf = Sjf(placer=Packed(), sharing=NoSharing(), skip_blocked=True)
    told = world(JOBS, cluster(2, 2))
    assert told.plan_of(sjf) is not None
    told.jobs.estimate_s[1] = np.nan
    assert told.plan_of(sjf) is None


def test_python_decides_where_a_job_asks_for_part_of_a_gpu():
    asks = np.array([1000, 500, 1000])
    nothing, any_type = np.zeros(3, dtype=np.int64), np.full(3, ANY_TYPE)
    assert asking(JOBS, None).plan_of(fifo()) is not None
    assert asking(JOBS, Demands(asks, nothing, nothing, any_type)).plan_of(fifo()) is None


@pytest.mark.parametrize(
    ("gang", "outages", "compiled"), [(5, 0, True), (6, 0, False), (5, 1, False)]
)
def test_python_decides_where_compact_means_more_than_whole_servers(gang, outages, compiled):
    topology = leaf_spine(
        name="mixed", servers=3, gpus_per_server=[3, 2, 2], servers_per_rack=8, gpu_types=["x"],
        intra_gbps=80.0, nic_gbps=10.0, oversubscription=2.0,
    )  # fmt: skip
    away = changes((1.0, 0, Change.CLOSE)) if outages else NO_OUTAGES
    simulator = world([Job(0, gang, 1)], topology, outages=away)
    assert (simulator.plan_of(fifo(placer=Consolidated)) is not None) == compiled
    assert simulator.plan_of(fifo()) is not None  # packed does not wait for compactness


@pytest.mark.parametrize(("tenants", "compiled"), [(2, True), (3, False)])
def test_selective_sharing_among_three_is_left_to_python(tenants: int, compiled: bool):
    selective = Fifo(placer=Packed(), sharing=SelectiveSharing(threshold=1.2), skip_blocked=False)
    simulator = world(JOBS, cluster(2, 2), max_tenants=tenants)
    assert (simulator.plan_of(selective) is not None) == compiled


def test_python_decides_where_schedulers_are_told_wrong_about_what_fits():
    topology = cluster(2, 2)
    truth = physics_of(topology, slowdown=((1.0,),), infeasible=[(0, 0)])
    told = physics_of(topology, slowdown=((1.0,),))
    shares = fifo(sharing=FallbackSharing)
    assert world(JOBS, topology, physics=truth, max_tenants=2).plan_of(shares) is not None
    wrong = world(JOBS, topology, physics=truth, belief=told, max_tenants=2)
    assert wrong.plan_of(shares) is None
    assert wrong.plan_of(fifo()) is not None  # whoever does not share does not ask


def test_progress_is_called_every_thousand_decisions():
    jobs = [Job(float(at), 1, 0.5) for at in range(2500)]
    calls: dict[bool, list[tuple[int, float]]] = {True: [], False: []}
    for compiled, seen in calls.items():
        simulator = world(jobs, cluster(1, 1))
        simulate(simulator, fifo(), 0, lambda *call, to=seen: to.append(call), compiled=compiled)
    assert calls[True] == calls[False] == [(999, 999.0), (1999, 1999.0)]


def test_what_deciding_costs_is_unknown_and_decisions_are_counted():
    run = simulate(world(JOBS, cluster(2, 2)), fifo(), 0, None)
    assert np.isnan(run.decision_s)
    assert run.decisions == 3  # at 0, at 1, and at 6, when B's GPU lets C in
    assert run.loop_wall_s > 0
    assert attempts(run.log)["A"][0].gpus == (0, 1)


def test_logs_longer_than_the_kernels_buffers_are_whole():
    """200,000 GPU ids go through buffers made for a fraction of them."""
    jobs = [Job(float(at), 8, 1.0) for at in range(12_000)]
    runs = {
        compiled: simulate(world(jobs, cluster(1, 8)), fifo(), 0, None, compiled=compiled)
        for compiled in (True, False)
    }
    assert len(runs[True].log.gpus.ids) == 2 * 8 * 12_000
    assert runs[True].log.gpus.ids.tobytes() == runs[False].log.gpus.ids.tobytes()
    assert runs[True].log.time_s.tobytes() == runs[False].log.time_s.tobytes()
