"""Which rows an answer has: every scheduler of the line-up, with all that it may be told."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuyard.advice.playing import Candidate, Ground, jobs_of, scheduler_of
from gpuyard.evaluation.task import Task, distinct, setting_text
from gpuyard.experiment.experiment import OneQueueError, opened
from gpuyard.experiment.lineup import Contender, lineup_of, without_limits
from gpuyard.launch.errors import ConfigError, nearest
from sim.engine.looping import Looping
from sim.protocols import Scheduler
from sim.signals import information_of
from sim.simulator import Simulator

PYTHON, SCORES = "decide in Python", "score each pair of job and place"
KNOWS = ("limit", "predicted", "oracle")  # keys of `knows`; what a batch system can have, then all
NO_LIMITS = (
    "rows told users' time limits: no job has one; map the column "
    "(Timelimit of sacct, workload.columns.limit_s of a CSV)"
)


def candidates_of(
    config: Mapping[str, Any], ground: Ground, *, limits: bool, own: Sequence[Contender] = ()
) -> tuple[list[Candidate], list[str]]:
    """The rows to play, and what is left out with the reason and the key that brings it in.

    A scheduler that reads predictions is a row for every entry of `knows`.

    Args:
        config: the resolved configuration of `conf/advise.yaml`.
        ground: of the jobs; each row gets one with the estimator that it is told by.
        limits: some job has a time limit.
        own: contenders beside the line-up.

    Raises:
        GpuYardError: an entry of the line-up is wrong.
    """
    knows = known_of(config)
    jobs, _ = jobs_of(ground)
    few = len(jobs) <= config["slow_jobs"]
    simulator = opened(ground.setting).game.simulator(jobs)
    found: list[Candidate] = []
    one_queue: list[str] = []
    slow: dict[str, list[str]] = {}  # reason -> names
    for contender in _unlike(config, [*lineup_of(without_limits(config)[1]), *own]):
        name = contender.name or contender.place
        first = Candidate(name, contender, ground, "none", slow=False)
        try:
            scheduler = scheduler_of(first)
        except OneQueueError:
            one_queue.append(name)
            continue
        why = _why_slow(simulator, scheduler)
        first = replace(first, name=contender.name or scheduler.name, slow=bool(why))
        if why and not few and not _kept(config, first, scheduler):
            slow.setdefault(why, []).append(first.name)
            continue
        names = _told(scheduler, knows, limits=limits, all_of_them=few or not why)
        found += [_row(config, first, scheduler, each, knows[each]) for each in names]
    left_out = _reasons(one_queue, slow, len(jobs))
    if not limits and "limit" in knows:
        left_out.append(NO_LIMITS)
    _check_names(found)
    return found, left_out


def _unlike(config: Mapping[str, Any], contenders: Sequence[Contender]) -> list[Contender]:
    """Without those that would play as an earlier one does here, told in a warning each."""
    tasks = [Task(setting_text(config, each), each, "", 0) for each in contenders]
    return [task.contender for task in distinct(tasks)]


def _reasons(one_queue: Sequence[str], slow: Mapping[str, Sequence[str]], jobs: int) -> list[str]:
    """Who is left out, why, and by which key they come in.

    Args:
        one_queue: schedulers that own one queue, where there are several partitions.
        slow: reason -> schedulers that are too slow.
        jobs: how many there are.
    """
    found = []
    if one_queue:
        names = ", ".join(one_queue)
        found.append(f"{names}, which own one queue for the cluster; agents.count=1 brings them in")
    if slow:
        told = "; ".join(f"{', '.join(names)}, which {why}" for why, names in slow.items())
        found.append(f"too slow for {jobs:,} jobs: {told}; slow_jobs={jobs} brings them in")
    return found


def _kept(config: Mapping[str, Any], first: Candidate, scheduler: Scheduler) -> bool:
    """Whether a slow scheduler is played all the same: it is named, or the user's own policy."""
    named = {first.name, scheduler.name} & set(config["slow_kept"])
    return bool(named) or first.contender.role == "ours"


def _told(
    scheduler: Scheduler, knows: Mapping[str, Any], *, limits: bool, all_of_them: bool
) -> list[str]:
    """The keys of `knows` that make a row each; of slow schedulers with many jobs the first."""
    if information_of(scheduler.needs) != "predicted":
        return ["oracle"]  # reads none, or the truth itself
    told = [name for name in knows if name != "limit" or limits]
    return told if all_of_them else told[:1]


def _row(
    config: Mapping[str, Any], first: Candidate, scheduler: Scheduler, name: str, estimator: Any
) -> Candidate:
    reads = information_of(scheduler.needs)
    setting = setting_text({**config, "estimator": estimator}, first.contender)
    ground = replace(first.ground, setting=setting)
    if reads != "predicted":
        return replace(first, ground=ground, information=reads)
    return replace(first, ground=ground, information=name, name=f"{first.name}, {name}")


def known_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Who tells durations, by what a row is told, the least first.

    Raises:
        ConfigError: a key of `knows` is unknown, or the oracle is missing.
    """
    knows = config["knows"]
    for name in knows:
        if name not in KNOWS:
            raise ConfigError(
                f"knows.{name}: no such key; did you mean {nearest(name, KNOWS) or KNOWS[0]}?"
            )
    if knows.get("oracle") is None:
        raise ConfigError("knows.oracle is missing; its rows are the bound of all others")
    return {name: knows[name] for name in KNOWS if knows.get(name) is not None}


def _why_slow(simulator: Simulator, scheduler: Scheduler) -> str:
    """Why many jobs take minutes; empty where they take seconds."""
    if simulator.python_decides(scheduler):
        return PYTHON
    return SCORES if isinstance(scheduler, Looping) else ""


def _check_names(candidates: list[Candidate]) -> None:
    """Refuse two rows of one name.

    Raises:
        ConfigError: naming both entries.
    """
    seen: dict[str, str] = {}
    for each in candidates:
        place = each.contender.place
        other = seen.setdefault(each.name, place)
        if other != place:
            raise ConfigError(
                f"{other} and {place} make the same row {each.name}; leave one out or give it a "
                f"name"
            )
