"""Arms of schedulers over a reference: `arms.csv`, `arms.md`; arms trained from several seeds."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product

import numpy as np

from sim.arrays import FloatArray
from sim.errors import amount
from sim.files import ReportError, csv_text, known_cells
from sim.report.job_times import UNKNOWN, Interval, mean_interval, percent
from sim.report.league import METRIC, PER_H, Cluster, LeagueRun, Place, mean_over, ratio_over
from sim.report.page_table import agents_apart
from sim.report.standings import uncounted
from sim.report.table_text import (
    FEW,
    UNCOUNTED,
    UNDONE,
    TableText,
    interval_text,
    mark,
    markdown,
    ratio_text,
    too_few,
)

AT = "@"  # a name in results is SCHEDULER@ARM
COLUMNS = ("cell", "scheduler", "arm", "windows", "jct_mean_s", "jct_low_s", "jct_high_s")

Key = tuple[str, str, str]  # cell, scheduler, arm


@dataclass(frozen=True)
class ArmRow:
    """One arm of a scheduler in one cell."""

    cell: str
    scheduler: str
    arm: str
    jct_s: Interval  # mean JCT over windows
    ratios: dict[str, Interval | None]  # reference arm -> paired ratio; None: itself, or not there
    undone: bool  # some of its jobs are in no mean


def arm_rows(
    runs: Sequence[LeagueRun], *, references: Sequence[str], confidence: float
) -> list[ArmRow]:
    """Rows by cell, scheduler and arm, each in order of appearance.

    Runs without an `@` in their scheduler's name, or without a finished measured job, are left out.
    Mean JCT is divided by that of the arms `references`, geometrically over paired windows.

    Raises:
        ReportError: a reference is no arm of any scheduler.
    """
    runs = agents_apart(runs)
    found, cluster_of = _by_arm(runs), {run.place: run.cluster for run in runs}
    undone = {(run.cell, run.row.labels.scheduler) for run in runs if uncounted([run.row]) > 0}
    arms = dict.fromkeys(arm for _, _, arm in found)
    for reference in references:
        if reference not in arms:
            known = ", ".join(arms) or f"none at all (a name is SCHEDULER{AT}ARM)"
            raise ReportError(f"reproduce.arms has {reference!r}; the arms are {known}")
    return [
        ArmRow(
            cell=cell,
            scheduler=scheduler,
            arm=arm,
            jct_s=mean_over(ours, cluster_of, confidence),
            ratios={
                each: None
                if each == arm
                else _ratio(ours, found.get((cell, scheduler, each), {}), cluster_of, confidence)
                for each in references
            },
            undone=(cell, f"{scheduler}{AT}{arm}") in undone,
        )
        for (cell, scheduler, arm), ours in found.items()
    ]


def arms_csv(rows: Sequence[ArmRow]) -> bytes:
    """The table with all figures; an empty cell is a value that is not there."""
    references = rows[0].ratios if rows else {}
    over = [f"over_{each}{end}" for each in references for end in ("", "_low", "_high")]
    lines = []
    for row in rows:
        ratios = [number for each in row.ratios.values() for number in (each or UNKNOWN).numbers]
        who = row.cell, row.scheduler, row.arm, row.jct_s.count
        lines.append(known_cells([*who, *row.jct_s.numbers, *ratios]))
    return csv_text([*COLUMNS, *over], lines).encode()


def arms_markdown(rows: Sequence[ArmRow], *, confidence: float) -> str:
    """A table a cell, under its heading, and how to read it."""
    heads = ["scheduler", "arm", "windows", "mean JCT [h]"]
    heads += [f"over {each}" for each in (rows[0].ratios if rows else ())]
    cells = groupby(rows, key=lambda row: row.cell)
    note = (
        f"Mean JCT ± half width of the {percent(confidence)} t interval over windows. Over an arm: "
        f"geometric mean over paired windows of mean JCT over that of the same scheduler's other "
        f"arm; below 1 is faster."
    )
    if any(row.undone for row in rows):
        note += f" {UNCOUNTED}"
    few = [each.clusters for row in rows for each in (row.jct_s, *row.ratios.values()) if each]
    counts = dict.fromkeys(count for count in few if count and mark(count, confidence))
    note += "".join(f" {FEW.strip()} {too_few(count)}" for count in counts)
    tables = tuple((cell, tuple(_line(row, confidence) for row in here)) for cell, here in cells)
    return markdown(TableText(tuple(heads), tables, note), texts=2)


def _by_arm(runs: Sequence[LeagueRun]) -> dict[Key, dict[Place, float]]:
    """Mean JCT of each run, [s]; keys by cell, scheduler and arm, in orders of appearance."""
    found: dict[Key, dict[Place, float]] = defaultdict(dict)
    for run in runs:
        scheduler, at, arm = run.row.labels.scheduler.rpartition(AT)
        mean_s = float(run.row.metrics[METRIC])
        if at and mean_s > 0:
            found[run.cell, scheduler, arm][run.place] = mean_s
    cells, schedulers, arms = (dict.fromkeys(key[part] for key in found) for part in range(3))
    keys = product(cells, schedulers, arms)
    return {key: found[key] for key in keys if key in found}


def _ratio(
    ours: Mapping[Place, float], theirs: Mapping[Place, float],
    cluster_of: Mapping[Place, Cluster], confidence: float,
) -> Interval | None:  # fmt: skip
    logs = {p: float(np.log(ours[p] / theirs[p])) for p in ours if p in theirs}
    return ratio_over(logs, cluster_of, confidence) if logs else None


def _line(row: ArmRow, confidence: float) -> tuple[str, ...]:
    arm, few = row.arm + (UNDONE if row.undone else ""), mark(row.jct_s.clusters, confidence)
    cells = [row.scheduler, arm, str(row.jct_s.count), interval_text(row.jct_s, PER_H) + few]
    for reference, ratio in row.ratios.items():
        if reference == row.arm:
            cells.append("1")
        else:
            cells.append(ratio_text(ratio) + mark(ratio.clusters if ratio else None, confidence))
    return tuple(cells)


@dataclass(frozen=True)
class SeedArm:
    """What one arm came to."""

    arm: str
    seeds: int
    jct_s: float  # mean over seeds and windows of the mean JCT
    ratio: Interval  # over the whole: geometric mean over seeds and windows, interval over windows
    by_seed: tuple[float, ...]  # the ratio of each seed; of one without seeds, to each of the whole


def seed_arms(jct_s: Mapping[str, FloatArray], *, whole: str, confidence: float) -> list[SeedArm]:
    """Every arm over the `whole`, paired by window and seed, in the order given.

    Windows are the sample: logs of ratios are averaged over seeds first. The interval is thus one
    for these trained policies; `by_seed` shows how much other seeds would move it. `jct_s` (seeds,
    windows) are mean JCTs of each arm; one row for what was not trained from seeds.

    Raises:
        ReportError: an arm has other windows, or other seeds, than the whole.
    """
    base = np.log(jct_s[whole])
    found = []
    for arm, values in jct_s.items():
        if values.shape[1] != base.shape[1] or len(values) not in (1, len(base)):
            raise ReportError(
                f"arm {arm}: {amount(len(values), 'seed')} of {amount(values.shape[1], 'window')}, "
                f"where {whole} has {len(base)} of {base.shape[1]}; play all on the same"
            )
        logs = np.log(values) - base  # (seeds of the whole, windows)
        found.append(
            SeedArm(
                arm=arm,
                seeds=len(values),
                jct_s=float(values.mean()),
                ratio=mean_interval(logs.mean(0), confidence).exp(),
                by_seed=tuple(np.exp(logs.mean(1)).tolist()),
            )
        )
    return found
