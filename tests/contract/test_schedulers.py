"""What every scheduler in `conf/scheduler/` promises; a new file is found by its name."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.decision import Decision
from sim.errors import SignalError, SimulationError
from sim.jobs import ANY_TYPE, Demands
from sim.protocols import Scheduler
from sim.report.balance import check_run
from sim.run import EventLog, Kind, Run
from sim.simulator import Simulator, simulate
from sim.topology.outages import ServerFailures
from sim.view import ClusterView, Signal
from tests.contract.compositions import composed, heuristics, made, stems
from tests.oracle.cases import Case, cases
from tests.sim.ledger import Ledger
from tests.sim.worlds import Job, cluster, job_table, physics_of, play, rules_of, world

SCHEDULERS = heuristics()
ORACLES = ["srtf"]
small_cases = cases(most_partitions=1, most_jobs=25, equal_servers=True)


def scheduler_of(stem: str) -> Scheduler:
    return made(f"scheduler={stem}")


def run_of(case: Case, scheduler: Scheduler, seed: int = 0) -> Run:
    return simulate(Simulator(**case.arguments()), scheduler, seed, None)


def bytes_of(log: EventLog) -> list[bytes]:
    columns = [getattr(log, name).tobytes() for name in ("time_s", "kind", "job", "partition")]
    return [*columns, *(gpus.tobytes() for gpus in log.gpus)]


class Granted:
    """Lets a scheduler decide with other `needs` than its own."""

    name = "granted"

    def __init__(self, scheduler: Scheduler, needs: Signal) -> None:
        self.scheduler, self.needs = scheduler, needs

    def reset(self, seed: int) -> None:
        self.scheduler.reset(seed)

    def decide(self, view: ClusterView) -> Decision:
        return self.scheduler.decide(view)


def test_the_glob_finds_the_schedulers():
    assert {"fifo", "las", "sjf", "srtf", "tetris"} <= set(SCHEDULERS) <= set(stems("scheduler"))


@pytest.mark.parametrize("stem", SCHEDULERS)
def test_it_is_named_after_its_file_and_says_what_it_does(stem: str):
    scheduler = scheduler_of(stem)
    assert scheduler.order_name == stem
    assert scheduler.name.split("+")[0] == stem
    assert len(type(scheduler).__doc__ or "") > 60
    assert isinstance(scheduler.needs, Signal)


def test_names_are_unique():
    assert len({scheduler_of(stem).name for stem in SCHEDULERS}) == len(SCHEDULERS)


def test_oracles_are_known():
    assert [s for s in SCHEDULERS if Signal.DURATION in scheduler_of(s).needs] == ORACLES


def test_the_command_line_chooses_placer_and_sharing_for_any_scheduler():
    placers, sharings = stems("placer"), stems("sharing")
    shares = [stem for stem in SCHEDULERS if hasattr(scheduler_of(stem), "sharing")]
    for turn in range(max(len(shares), len(placers), len(sharings))):
        stem = shares[turn % len(shares)]
        placer, sharing = placers[turn % len(placers)], sharings[turn % len(sharings)]
        words = [f"scheduler={stem}", f"placer={placer}", f"sharing={sharing}"]
        scheduler = instantiate(composed(words, "simulate"), _convert_="all")
        assert scheduler.placer.name == placer
        assert scheduler.sharing.name.startswith(sharing)
    for stem in set(SCHEDULERS) - set(shares):
        words = [f"scheduler={stem}"]
        assert composed(words, "simulate") == composed(words)


@pytest.mark.parametrize("stem", SCHEDULERS)
@settings(max_examples=12)
@given(case=small_cases, seed=st.integers(0, 9))
def test_it_is_legal_repeats_itself_starts_nothing_twice_and_finishes_all(
    stem: str, case: Case, seed: int
) -> None:
    run = run_of(case, scheduler_of(stem), seed)
    assert np.all(run.finish_s >= run.jobs.submit_s)
    starts = Counter(run.log.job[run.log.kind == Kind.START].tolist())
    stops = Counter(run.log.job[np.isin(run.log.kind, [Kind.PREEMPT, Kind.EXPIRE])].tolist())
    rows = range(len(run.jobs))
    assert [starts[row] for row in rows] == [stops[row] + 1 for row in rows]
    assert bytes_of(run_of(case, scheduler_of(stem), seed).log) == bytes_of(run.log)


@pytest.mark.parametrize("stem", SCHEDULERS)
def test_it_reads_what_its_needs_name_and_every_one_of_them(stem: str):
    scheduler = scheduler_of(stem)
    topology = cluster(2, 2)
    jobs = [Job(0, 1, 5), Job(0, 2, 9), Job(1, 1, 3), Job(1, 4, 2), Job(2, 1, 1)]

    def run_with(needs: Signal) -> Run:
        yard = world(jobs, topology, physics=physics_of(topology), max_tenants=2)
        return play(yard, Granted(scheduler, needs))

    assert np.isfinite(run_with(scheduler.needs).finish_s).all()
    for signal in Signal:
        if signal in scheduler.needs:
            with pytest.raises(SignalError, match=signal.name):
                run_with(scheduler.needs & ~signal)


def later(case: Case, run: Run, cut_s: float) -> Case:
    """The same case with other durations for jobs that have not finished by `cut_s`.

    Jobs to come then come later, with one GPU each and other predictions.
    """
    jobs = case.jobs
    unfinished, to_come = ~(run.finish_s <= cut_s), jobs.submit_s >= cut_s
    changed = dataclasses.replace(
        jobs,
        duration_s=np.where(unfinished, 3.0 * jobs.duration_s + 5.0, jobs.duration_s),
        estimate_s=np.where(to_come, 2.0 * jobs.estimate_s + 1.0, jobs.estimate_s),
        submit_s=np.where(to_come, jobs.submit_s + 7.0, jobs.submit_s),
        num_gpus=np.where(to_come, 1, jobs.num_gpus),
    )
    return dataclasses.replace(case, jobs=changed)


def until(log: EventLog, cut_s: float) -> list[tuple[float, int, int, tuple[int, ...]]]:
    return [
        (float(t), int(kind), int(job), tuple(gpus.tolist()))
        for t, kind, job, gpus in zip(log.time_s, log.kind, log.job, log.gpus, strict=True)
        if t < cut_s
    ]


@pytest.mark.parametrize("stem", [s for s in SCHEDULERS if s not in ORACLES])
@settings(max_examples=12)
@given(case=small_cases, share=st.floats(0.1, 0.9))
def test_it_does_not_peek_at_durations_of_unfinished_jobs_nor_at_jobs_to_come(
    stem: str, case: Case, share: float
) -> None:
    run = run_of(case, scheduler_of(stem))
    cut_s = float(run.log.time_s[int(share * (len(run.log.time_s) - 1))])
    other = run_of(later(case, run, cut_s), scheduler_of(stem))
    assert until(other.log, cut_s) == until(run.log, cut_s)


@pytest.mark.parametrize("checkpoint", ["pretrained", "pretrained_suspending"])
@settings(max_examples=8)
@given(case=cases(most_partitions=3, most_jobs=25, equal_servers=True), share=st.floats(0.1, 0.9))
def test_neither_do_agents(checkpoint: str, case: Case, share: float) -> None:
    agents = made("scheduler=marl", f"scheduler.checkpoint={checkpoint}")
    run = run_of(case, agents)
    cut_s = float(run.log.time_s[int(share * (len(run.log.time_s) - 1))])
    assert until(run_of(later(case, run, cut_s), agents).log, cut_s) == until(run.log, cut_s)


def test_the_peeking_test_catches_an_oracle():
    # SRTF lets B (3 s) in before A (9 s) at 1; had B 14 s to go, it would wait.
    jobs = [Job(0, 1, 10), Job(1, 1, 3)]
    changed = [Job(0, 1, 10), Job(1, 1, 14)]
    logs = [play(world(j, cluster(1, 1)), scheduler_of("srtf")).log for j in (jobs, changed)]
    assert until(logs[0], 2.0) != until(logs[1], 2.0)


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
