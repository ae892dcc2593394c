"""Why a job waited: `explain` of a run that was just played, `explain_folder` of one on disk.

The run is played a second time, with the same seed and so with the same decisions. Until the job
comes it runs as fast as ever; then it halts after each decision, and a judge
(`gpuyard.evaluation.reasons`) says why the job still waits. See docs/explain.md.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.evaluation.explanation import Explanation, Look, Reason, Row, merged
from gpuyard.evaluation.reasons import judge_of, named
from gpuyard.launch.errors import ConfigError, nearest
from gpuyard.launch.terminal import Lines
from marl.env.world import World
from sim.arrays import IntArray, TextArray
from sim.errors import SimulationError
from sim.jobs import COMPLETED
from sim.kernel.layout import QUEUED
from sim.kernel.step import FULL, PAUSE
from sim.protocols import EVERY, Loop, Scheduler
from sim.report.replay import ranges
from sim.report.run_tables import server_names
from sim.report.timeline import blocked_at_arrival
from sim.run import Kind, Run
from sim.simulator import Simulator

Looked = tuple[int, Look]  # number of events that were logged before the look, and the look
MOST_COMPARED = 20_000  # ids among which the nearest is looked for
MOST_SERVERS = 4  # that are named
SORTING = 20  # times as long as reading a queue takes putting it in order
ENTRIES_A_STRIDE = 200_000_000  # queue entries looked at before every other decision is passed over
EVENTS = {
    Kind.ARRIVAL: Reason.SUBMITTED, Kind.READY: Reason.READY, Kind.FORWARD: Reason.FORWARDED,
    Kind.START: Reason.STARTED, Kind.PREEMPT: Reason.PREEMPTED, Kind.EXPIRE: Reason.LEASE,
    Kind.FAIL: Reason.FAILED, Kind.EVICT: Reason.EVICTED, Kind.FINISH: Reason.FINISHED,
    Kind.WITHDRAW: Reason.LEFT,
}  # fmt: skip


def explain(
    run: Run, world: World, scheduler: Scheduler, job: str, *, seed: int, compiled: bool = True
) -> Explanation:
    """Why `job` waited in `run`.

    Args:
        run: as it was played, to its end.
        world: what it was played on.
        scheduler: by which; it is reset.
        job: its id in the trace.
        seed: of the run.
        compiled: whether a compiled loop may play the scheduler, as in `sim.simulator.simulate`.

    Raises:
        ConfigError: no job has that id.
        SimulationError: played again, the run is another one.
    """
    row = row_of(run.jobs.job_id, job)
    start_s = float(run.start_s[row])
    looks, stride = _looks(run, world, scheduler, row, seed, compiled)
    rows = _timeline(run, row, looks)
    return Explanation(
        job_id=str(run.jobs.job_id[row]),
        num_gpus=int(run.jobs.num_gpus[row]),
        scheduler=run.scheduler,
        submit_s=float(run.jobs.submit_s[row]),
        first_start_s=None if np.isnan(start_s) else start_s,
        rank_rule=judge_of(scheduler, run).rank_rule,
        rows=tuple(rows),
        one_in=stride,
    )


def explain_folder(folder: Path | str, job: str) -> Explanation:
    """The same of the run that `simulate` has left in `folder`, which is played again.

    Raises:
        ConfigError: the folder is none of a simulated run, or no job has that id.
    """
    from omegaconf import OmegaConf

    from gpuyard.evaluation.experiment import composition_of, experiment_of
    from gpuyard.launch.own import own_groups
    from sim.simulator import simulate

    path = Path(folder) / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{path} is not there; the folder must be that of a simulated run")
    config: Any = OmegaConf.to_container(OmegaConf.load(path))
    if not isinstance(config, dict) or "log_decisions" not in config:
        raise ConfigError(f"{path} is not of a simulated run, and so has no job to explain")
    own_groups(Path.cwd())  # as where it ran, modules of the user's own are found
    experiment = experiment_of(config)
    jobs = experiment.window(config["part"], config["window"])
    row_of(jobs.job_id, job)
    scheduler = composition_of(config, experiment.world.partitions)
    compiled = bool(config["compiled"])
    simulator = experiment.world.simulator(jobs)
    run = simulate(simulator, scheduler, experiment.seed, None, compiled=compiled)
    return explain(run, experiment.world, scheduler, job, seed=experiment.seed, compiled=compiled)


def row_of(job_id: TextArray, job: str) -> int:
    """The row of the job with that id; ConfigError: there is none, with the ids most like it."""
    rows = np.flatnonzero(job_id == str(job))
    if len(rows):
        return int(rows[0])
    names = [str(name) for name in job_id]
    near = _nearest_few(str(job), names)
    raise ConfigError(
        f"explain is {job!r}; none of the {len(job_id):,} jobs has that id; "
        + (f"the nearest: {', '.join(near)}" if near else f"they are like {', '.join(names[:3])}")
    )


def _nearest_few(job: str, names: list[str]) -> list[str]:
    import difflib

    same_length = [name for name in names if abs(len(name) - len(job)) <= 1]
    few = difflib.get_close_matches(job, same_length[:MOST_COMPARED], n=3)
    best = nearest(job, names[:MOST_COMPARED])
    return few or ([best] if best else [])


def _looks(
    run: Run, world: World, scheduler: Scheduler, row: int, seed: int, compiled: bool
) -> tuple[list[Looked], int]:
    """What decisions say after which the job waits, and that it is one in so many at the end.

    A look costs as much as the queue is long. Where all of them would take minutes, every other
    decision is passed over, then three of four, and so on.
    """
    simulator = world.simulator(run.jobs)
    scheduler.reset(seed)
    loop = simulator.loop_of(scheduler) if compiled else None
    if loop is None:
        halts = _python_halts(simulator, scheduler)
    else:
        submit_s = float(run.jobs.submit_s[row])
        skipped = _skippable(run, world, scheduler, seed, submit_s)
        halts = _compiled_halts(simulator, loop, skipped + 1, 1)
    events = np.flatnonzero(run.log.job == row)
    ends = events[np.isin(run.log.kind[events], (Kind.START, Kind.WITHDRAW))]
    last = int(ends[-1]) if len(ends) else len(run.log.kind)  # it never waits again
    judge, views = judge_of(scheduler, run), simulator.views(scheduler.needs)
    status, looks = simulator.state.job["status"], []
    lines = Lines(simulator, "explain")  # silent for the first half minute
    waits, stride, seen = 0, 1, 0
    for now_s in halts:
        if status[row] == QUEUED:
            if waits % stride == 0:
                logged = simulator.num_events()
                looks.append((logged, judge.look(views.view(), row, logged)))
                seen += looks[-1][1].waiting * (SORTING if judge.sorts else 1)
                if seen > ENTRIES_A_STRIDE:
                    stride, seen = 2 * stride, 0
            waits += 1
            if waits % EVERY == 0:
                lines.tell(simulator.finished(), now_s)
        elif simulator.num_events() > last:  # an instant may come twice: no time tells it
            break
    _check_same(run, simulator, row)
    return looks, stride


def _check_same(run: Run, simulator: Simulator, row: int) -> None:
    again_s, first_s = simulator.state.job["first_start_s"][row], run.start_s[row]
    if again_s != first_s and not (np.isnan(again_s) and np.isnan(first_s)):
        raise SimulationError(
            f"job {run.jobs.job_id[row]} starts at t={first_s} s, and when the run is played again "
            f"at t={again_s} s: the scheduler does not repeat itself, so it cannot be explained"
        )


def _python_halts(simulator: Simulator, scheduler: Scheduler) -> Iterator[float]:
    """Play on decision by decision, as `sim.simulator.simulate` does; the time after each."""
    views, again = simulator.views(scheduler.needs), False
    while again or simulator.advance():
        decision = scheduler.decide(views.view())
        simulator.apply(decision, scheduler)
        again = decision.again
        if not again:
            yield simulator.now_s


def _compiled_halts(simulator: Simulator, loop: Loop, first: int, step: int) -> Iterator[float]:
    """Play so many decisions at once, then `step` at a time; the time after each halt."""
    stop = first
    while (verdict := loop.play(stop)) in (FULL, PAUSE):
        if verdict == FULL:
            simulator.flush()
        else:
            yield simulator.now_s
            stop += step


def _skippable(run: Run, world: World, scheduler: Scheduler, seed: int, until_s: float) -> int:
    """How many decisions are surely over before `until_s`, counted in steps."""
    if run.jobs.submit_s[0] == until_s or run.decisions <= EVERY:
        return 0
    simulator = world.simulator(run.jobs)
    loop = simulator.loop_of(scheduler)
    assert loop is not None
    halts = _compiled_halts(simulator, loop, EVERY, EVERY)
    before = sum(1 for _ in takewhile(lambda now_s: now_s < until_s, halts))
    scheduler.reset(seed)
    return EVERY * before


def _timeline(run: Run, row: int, looks: list[Looked]) -> list[Row]:
    """Events and merged looks, each look after the events before it: an instant may have many."""
    log, events = run.log, np.flatnonzero(run.log.job == row).tolist()
    rows: list[Row] = []
    waiting: list[Look] = []
    at = 0

    def emit(until: int) -> None:
        """The job's own among the first `until` events of the run, after the looks before them."""
        nonlocal at, waiting
        while at < len(events) and events[at] < until:
            rows.extend(merged(waiting, float(log.time_s[events[at]])))
            waiting = []
            rows.append(_event_row(run, row, events[at]))
            at += 1

    for before, look in looks:
        emit(before)
        waiting.append(look)
    emit(len(log.kind))
    ends_s = [each.time_s for each in rows[1:]] + [each.time_s for each in rows[-1:]]
    # The wait rows know their ends; an event lasts until what comes next.
    return [
        each if each.waits else replace(each, until_s=end_s)
        for each, end_s in zip(rows, ends_s, strict=True)
    ]


def _event_row(run: Run, row: int, event: int) -> Row:
    log = run.log
    kind, time_s = Kind(int(log.kind[event])), float(log.time_s[event])
    partition = int(log.partition[event])
    reason, words = EVENTS[kind], ""
    if kind == Kind.ARRIVAL and blocked_at_arrival(run)[row]:
        reason = Reason.PARENTS
    elif kind == Kind.START:
        words = _place(run, log.gpus[event])
    elif kind == Kind.FORWARD:
        words = f"to partition {partition}"
    elif kind == Kind.PREEMPT:
        words = _takers(run, event)
    elif kind == Kind.WITHDRAW:
        words = _who_withdrew(run, row, time_s)
    return Row(
        time_s=time_s, until_s=time_s, decisions=0, reason=reason, words=words, certain=True,
        partition=partition,
    )  # fmt: skip


def _who_withdrew(run: Run, row: int, time_s: float) -> str:
    """Its user, or the first parent that ended otherwise than completed."""
    fates, links = run.jobs.fates, run.jobs.precedence
    if fates is not None and time_s >= run.jobs.submit_s[row] + fates.withdraw_s[row]:
        return "its user gave up"
    assert links is not None and run.outcome is not None
    parents = links.parents[links.first[row] : links.first[row + 1]]
    lost = parents[run.outcome[parents] > COMPLETED]  # -1: not over
    first = lost[np.argmin([np.flatnonzero(run.log.job == parent)[-1] for parent in lost])]
    return f"its parent {run.jobs.job_id[first]} did not complete"


def _place(run: Run, gpus: IntArray) -> str:
    names, topology = server_names(run.topology), run.topology
    servers = np.unique(topology.gpu_server[gpus])
    where = ", ".join(str(names[server]) for server in servers[:MOST_SERVERS])
    more = f" and {len(servers) - MOST_SERVERS} more" if len(servers) > MOST_SERVERS else ""
    plural = "s" if len(servers) > 1 else ""
    return f"on GPUs {ranges(gpus)} of server{plural} {where}{more}"


def _takers(run: Run, event: int) -> str:
    """Who takes GPUs at that instant which the job gives back."""
    log, lost = run.log, set(run.log.gpus[event].tolist())
    takers, at = [], event + 1
    while at < len(log.kind) and log.time_s[at] == log.time_s[event]:
        taken = log.kind[at] == Kind.START and not lost.isdisjoint(log.gpus[at].tolist())
        if taken and log.job[at] != log.job[event]:  # one that moves may keep some of its own
            takers.append(int(log.job[at]))
        at += 1
    return f"by {named(run, np.array(takers))}" if takers else ""
