"""Runs of a table that are played again for its page: a table keeps no event log."""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuyard.evaluation.lineup import Contender, lineup_of, without_limits
from gpuyard.evaluation.task import Task, run_of, setting_text, task_labels
from gpuyard.launch.sweeps import in_processes
from gpuyard.pages.comparison_page import VIEWS
from gpuyard.pages.page import Figure, Table, sections_json
from gpuyard.pages.run_page import run_views
from gpuyard.pages.sections import jct_figure, use_figure
from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.files import Labels, write_atomically
from sim.report.job_times import counted, jct_s
from sim.report.run_folder import TIMELINE_BINS
from sim.report.timeline import Timeline, timeline_of
from sim.run import Run

log = logging.getLogger(__name__)

NOT_A_RESULT = ("global_queue", "reference")  # roles of lines to compare with
LONGEST_S = 20.0  # of the run; a longer one is not played twice
SAME = 1e-9  # share by which the means of equal runs may differ: they are summed in other orders


@dataclass(frozen=True)
class Again:
    """A run of a table, and how it is played once more."""

    name: str  # in titles
    scheduler: str  # as the table calls it
    play: Callable[[], Run]  # can be sent to another process
    metrics: Mapping[str, float | int]  # as the table has them, if it has some


@dataclass(frozen=True)
class Seen:
    """What a page draws of one run."""

    name: str
    scheduler: str
    sections: tuple[Table | Figure, ...]
    timeline: Timeline
    jct_s: FloatArray  # (n,) of measured, finished jobs


def best_two(roles: Mapping[str, str], ours: str | None = None) -> list[str]:
    """`ours` and the best rival, or the best two; fewer where there are no others.

    `roles`: name -> role, the best first; lines to compare with are no rivals of `ours`.
    """
    if ours is None:
        return list(roles)[:2]
    names = [name for name, role in roles.items() if role not in NOT_A_RESULT and name != ours]
    return [ours, *(names or [name for name in roles if name != ours])][:2]


def best_first(times_s: Mapping[str, Sequence[float]]) -> list[str]:
    """Names by mean JCT; who ran fewer windows comes after others: its mean is over other jobs."""

    def place(name: str) -> tuple[int, float]:
        return -len(times_s[name]), float(np.nan_to_num(np.mean(times_s[name]), nan=np.inf))

    return sorted(times_s, key=place)


def seen_again(runs: Sequence[Again], *, processes: int) -> list[Seen]:
    """Play the runs again and draw them, in their order; the first one's figures are unfolded.

    One that takes too long, fails, or comes out unlike its table, is told in a warning instead.
    """
    took_s = {each.name: each.metrics.get("loop_wall_s", math.nan) for each in runs}
    long = [each for each in runs if took_s[each.name] > LONGEST_S]  # NaN: played with others
    short = [each for each in runs if each not in long]
    for each in long:
        log.warning(
            "%s took %.0f s and is not played again for the page; simulate.py draws it",
            each.name, took_s[each.name],
        )  # fmt: skip
    if short:
        log.info("playing again for the page: %s", "; ".join(each.name for each in short))
    found: dict[str, Seen] = {}
    for seen in in_processes(_seen, short, min(processes, len(short)) or 1):
        if isinstance(seen, str):
            log.warning("%s", seen)
        else:
            found[seen.name] = seen
    kept = [found[each.name] for each in short if each.name in found]
    return [*kept[:1], *(replace(each, sections=folded(each.sections)) for each in kept[1:])]


def _seen(again: Again) -> Seen | str:
    """The run as a page draws it, or why it cannot."""
    try:
        run = again.play()
    except GpuYardError as error:
        return f"{again.name} is not drawn server by server: {error}"
    times_s = jct_s(run)[counted(run)]
    mean_s = float(times_s.mean()) if len(times_s) else math.nan
    then_s = again.metrics.get("jct_mean_s", mean_s)
    both_none = math.isnan(mean_s) and math.isnan(then_s)
    if not both_none and not math.isclose(mean_s, then_s, rel_tol=SAME):
        return (
            f"{again.name} is not drawn server by server: played again, its mean JCT is "
            f"{mean_s:.6g} s, not {then_s:.6g} s; has the code or a file changed?"
        )
    titled = tuple(
        replace(section, title=f"{section.title}: {again.name}") for section in run_views(run)
    )
    timeline = timeline_of(run, bins=TIMELINE_BINS)
    return Seen(again.name, again.scheduler, titled, timeline, times_s)


def drawn(seen: Sequence[Seen]) -> list[Table | Figure]:
    """How long jobs took, use and queue of all runs, then each run whole."""
    whose = {each.name: each.scheduler for each in seen}
    found = [
        jct_figure({each.name: each.jct_s for each in seen}, whose),
        use_figure({each.name: each.timeline for each in seen}, whose, of=""),
    ]
    whole = (section for each in seen for section in each.sections)
    return [*(figure for figure in found if figure is not None), *whole]


def write_views(folder: Path, sections: Sequence[Table | Figure]) -> None:
    """Write views.json, from which a folder's page is made."""
    write_atomically(folder / VIEWS, sections_json(sections).encode())


def folded(sections: Sequence[Table | Figure]) -> tuple[Table | Figure, ...]:
    """The same, of which none is unfolded."""
    return tuple(replace(section, opened=False) for section in sections)


def simulated(config: Mapping[str, Any], part: str | None, window: int, role: str) -> Task:
    """The run of a configuration as `simulate` takes it, resolved."""
    text = json.dumps(config)
    contender = Contender("its configuration", text, role, agents=None, name=None)
    return Task(text, contender, part, window)


def run_recorded(config: Mapping[str, Any], labels: Labels, *, single: bool) -> Run:
    """The run with these labels, from the configuration that its program left in its folder.

    Must be called inside a Hydra program, in the process that is one. `single`: it was a run of
    `simulate`, not one of `evaluate`.

    Raises:
        GpuYardError: it cannot be played again, or its configuration has other keys than today's.
    """
    try:
        return run_of(_recorded(config, labels, single=single))
    except KeyError as error:
        raise GpuYardError(f"its config.yaml has no {error}") from error


def _recorded(config: Mapping[str, Any], labels: Labels, *, single: bool) -> Task:
    if single:
        return simulated(config, config["part"], labels.window, labels.role)
    for contender in lineup_of(without_limits(config)[1]):
        setting = setting_text(config, contender)
        task = Task(setting, contender, str(config["part"]), labels.window)
        found = task_labels(task)
        if (found.scheduler, found.agents) == (labels.scheduler, labels.agents):
            return task
    raise GpuYardError(f"the line-up has no {labels.scheduler} any more")
