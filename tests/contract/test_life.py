"""Every scheduler of `conf/` where jobs ask for more than GPUs and servers come and go."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import SimulationError
from sim.jobs import ANY_TYPE, Demands
from sim.report.balance import check_run
from sim.run import Kind
from sim.simulator import Simulator, simulate
from sim.topology.outages import ServerFailures
from tests.contract.compositions import heuristics, made, stems
from tests.oracle.cases import Case, cases
from tests.sim.ledger import Ledger
from tests.sim.worlds import Job, cluster, job_table, physics_of, rules_of

COUNT = 80
ALONE = {stem: (f"scheduler={stem}",) for stem in heuristics()}  # name -> overrides
PLACED = {
    f"{placer}+{sharing}": ("scheduler=fifo", f"placer={placer}", f"sharing={sharing}")
    for placer in stems("placer")
    for sharing in stems("sharing")
}
WAYS = ALONE | PLACED


def busy_world(seed: int) -> Case:
    """80 jobs of all kinds on 6 servers of 4 GPUs of two types, each of which fails now and then.

    Whatever a job asks for, a server that is empty can take it whole, so every rule can finish.
    """
    rng = np.random.default_rng(seed)
    topology = dataclasses.replace(
        cluster(6, 4, types=("x", "y")),
        server_cpu_milli=np.full(6, 16_000),
        server_memory_mib=np.full(6, 400),
    )
    gangs = rng.choice([1, 1, 1, 2, 4], COUNT)
    rows = zip(np.cumsum(rng.exponential(2.0, COUNT)), gangs, rng.uniform(1, 20, COUNT),
               strict=True)  # fmt: skip
    jobs = job_table([Job(float(at), int(gang), float(long)) for at, gang, long in rows])
    demands = Demands(
        gpu_milli=np.where(gangs == 1, rng.choice([1000, 700, 300, 100], COUNT), 1000),
        cpu_milli=rng.choice([0, 1000, 4000], COUNT),
        memory_mib=rng.choice([0, 30, 100], COUNT),
        type_mask=rng.choice([ANY_TYPE, 0b01, 0b10, 0b11], COUNT),
    )
    failures = ServerFailures(
        mtbf_s=80.0, shape=0.8, repair_median_s=5.0, repair_sigma=1.0, rack_mtbf_s=300.0,
        horizon_s=400.0,
    )  # fmt: skip
    physics = physics_of(topology, slowdown=((1.3,),), compute_s=(1.0, 0.8))
    return Case(
        jobs=dataclasses.replace(jobs, demands=demands),
        topology=topology,
        physics=physics,
        belief=physics,
        partition_of_server=np.zeros(6, dtype=np.int64),
        rules=rules_of(max_tenants=3, gpu_oversubscription=2.0, checkpoint_work_s=2.0,
                       checkpoint_s=0.1, restart_s=0.5),
        outages=failures.outages(topology, seed),
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_every_rule_finishes_a_busy_world_legally(way: str):
    case = busy_world(3)
    run = simulate(Simulator(**case.arguments()), made(*WAYS[way]), 0, None)
    assert run.outcome.tolist() == [0] * COUNT
    kinds = set(run.log.kind.tolist())
    assert {Kind.EVICT, Kind.SERVER_DOWN, Kind.SERVER_UP} <= kinds
    Ledger(case, run, {})
    check_run(run)


def test_parts_of_gpus_are_used_side_by_side():
    case = busy_world(3)
    run = simulate(Simulator(**case.arguments()), made("scheduler=fifo"), 0, None)
    assert run.interference_s.sum() > 0  # of neighbours that asked for parts, nobody else
    whole = case.jobs.demands.gpu_milli == 1000
    assert run.interference_s[whole].sum() == 0


@pytest.mark.parametrize("stem", ALONE)
@settings(max_examples=10)
@given(case=cases(most_partitions=1, most_jobs=25, life=True), seed=st.integers(0, 9))
def test_every_scheduler_is_legal_through_all_of_life(stem: str, case: Case, seed: int) -> None:
    simulator = Simulator(**case.arguments())
    try:
        run = simulate(simulator, made(*ALONE[stem]), seed, None)
    except SimulationError:  # a gang of more workers than its servers can ever take
        run = simulator.outcome(stem, 0, 0.0, 0.0)
    Ledger(case, run, {})
