"""A league: runs by scheduler, cell and window, and one table by what is known of durations."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from sim.arrays import FloatArray
from sim.files import ComparisonRow, Labels, ReportError, csv_text, known_cells, run_names
from sim.report.job_times import (
    UNKNOWN,
    Interval,
    clustered_mean_interval,
    mean_interval,
    mean_of,
    percent,
)
from sim.report.significance import Ranking, ranking
from sim.report.standings import best_of, uncounted
from sim.report.table_text import UNCOUNTED, UNDONE, TableText, interval_text, mark, ratio_text
from sim.times import HOUR_S

METRIC = "jct_mean_s"

Place = tuple[str, int, int]  # cell, seed, window: what one run of a scheduler is paired by
Block = tuple[str, int, int]  # workload, seed, window
Cluster = Block | tuple[str, int]  # workload, stretch of its time
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class LeagueRun:
    """One run, and where in the league it belongs."""

    cell: str
    workload: str  # cells of one workload play the same jobs, window by window
    row: ComparisonRow

    @property
    def place(self) -> Place:
        """What other schedulers' runs are paired by."""
        return self.cell, self.row.labels.seed, self.row.labels.window

    @property
    def block(self) -> Block:
        """The jobs: runs of one block are not independent of each other."""
        return self.workload, self.row.labels.seed, self.row.labels.window

    @property
    def cluster(self) -> Cluster:
        """What others are independent of: the block, or the stretch of time that it is from."""
        stretch = self.row.labels.stretch
        return self.block if stretch is None else (self.workload, stretch)


@dataclass(frozen=True)
class League:
    """All runs by scheduler; schedulers in order of appearance."""

    runs: dict[str, dict[Place, LeagueRun]]

    def labels(self, name: str) -> Labels:
        """Labels of the scheduler's first run."""
        return next(iter(self.runs[name].values())).row.labels

    def complete(self) -> list[str]:
        """Schedulers that ran at every place where any did."""
        places = {place for found in self.runs.values() for place in found}
        return [name for name, found in self.runs.items() if places <= set(found)]

    def common(self) -> set[Place]:
        """Places where every scheduler ran."""
        return set.intersection(*(set(found) for found in self.runs.values()))


def league_of(runs: Sequence[LeagueRun]) -> League:
    """Group runs; a scheduler with another number of agents is another scheduler.

    Runs without a finished measured job are left out: they have no mean.

    Raises:
        ReportError: no run, or a scheduler ran twice at one place.
    """
    found: dict[str, dict[Place, LeagueRun]] = defaultdict(dict)
    for name, run in zip(run_names([run.row.labels for run in runs]), runs, strict=True):
        if run.place in found[name]:
            window = run.row.labels.window
            raise ReportError(
                f"{name} ran twice on {run.cell}, window {window}; name the cells apart"
            )
        if run.row.metrics[METRIC] > 0:
            found[name][run.place] = run
    kept = {name: places for name, places in found.items() if places}
    if not kept:
        raise ReportError("no finished run; there is nothing to rank")
    return League(kept)


def mean_over(
    values: Mapping[K, float], cluster_of: Mapping[K, Hashable], confidence: float
) -> Interval:
    """The mean; whole clusters are drawn where some have several values."""
    numbers, ids = list(values.values()), dict[Hashable, int]()
    clusters = [ids.setdefault(cluster_of[key], len(ids)) for key in values]
    if len(ids) == len(numbers):
        return mean_interval(numbers, confidence)
    return clustered_mean_interval(numbers, clusters, confidence)


def ratio_over(
    logs: Mapping[K, float], cluster_of: Mapping[K, Hashable], confidence: float
) -> Interval:
    """The same of ln ratios, as a ratio."""
    return mean_over(logs, cluster_of, confidence).exp()


def block_scores(
    league: League, names: Sequence[str], places: set[Place]
) -> tuple[list[Cluster], FloatArray]:
    """Clusters, and the (N, k) mean of ln(mean JCT) over the places of each; all `names` ran there.

    Cells that differ in load or topology alone play the same jobs, so they are in one.
    """
    members: dict[Cluster, list[Place]] = defaultdict(list)
    for place in sorted(places):
        members[league.runs[names[0]][place].cluster].append(place)
    blocks = sorted(members)
    scores = [
        [
            float(np.mean([np.log(league.runs[name][p].row.metrics[METRIC]) for p in members[b]]))
            for name in names
        ]
        for b in blocks
    ]
    return blocks, np.array(scores).reshape(len(blocks), len(names))


def rank_over_all(league: League, *, level: float) -> Ranking | None:
    """Ranks of the schedulers that ran everywhere; None where they are too few for ranks."""
    names = league.complete()
    return _ranked(league, names, set(league.runs[names[0]]), level) if names else None


def rank_in_common(league: League, *, level: float) -> Ranking | None:
    """Ranks of all schedulers where all ran; None where that is too little."""
    return _ranked(league, list(league.runs), league.common(), level)


def _ranked(
    league: League, names: Sequence[str], places: set[Place], level: float
) -> Ranking | None:
    _, scores = block_scores(league, names, places)
    return ranking(names, scores, level=level)


INFORMATION = ("none", "limit", "predicted", "oracle")
PER_H = 1.0 / HOUR_S
HEADERS = (
    "scheduler", "role", "agents", "runs", "mean JCT [h]", "p95 JCT [h]", "JCT ratio", "mean rank",
    "decision [ms]",
)  # fmt: skip
CSV_COLUMNS = (
    "scheduler", "information", "role", "agents", "runs", "fewer_runs", "jct_mean_s", "jct_low_s",
    "jct_high_s", "jct_p95_s", "ratio", "ratio_low", "ratio_high", "mean_rank", "common_rank",
    "decision_ms_mean",
)  # fmt: skip


@dataclass(frozen=True)
class LeagueRow:
    """One scheduler over all its cells and windows."""

    scheduler: str
    information: str
    role: str
    agents: int
    runs: int
    fewer: bool  # it lacks cells or windows that others ran: compare its ratio, not its means
    jct_s: Interval  # over blocks (workload, window), each the mean over its cells
    jct_p95_s: Interval
    ratio: Interval | None  # paired mean JCT over that of the reference; None for itself
    rank: float  # among those that ran everywhere; NaN where it did not
    common_rank: float  # among all, where all ran; NaN where that is too little
    undone: bool  # some of its jobs are in no mean
    decision_ms: float  # mean over its runs; NaN where all were compiled, so not timed singly


def league_rows(
    league: League,  # the runs
    *,
    everywhere: Ranking | None,  # ranks of those that ran everywhere, if there are enough
    common: Ranking | None,  # ranks of all where all ran, if there are enough
    reference: str,  # scheduler that the others' mean JCT is divided by
    confidence: float,  # of the intervals
) -> list[LeagueRow]:
    """Rows, best mean rank first, those without one last by their ratio.

    Raises:
        ReportError: the reference is no scheduler of the league.
    """
    if reference not in league.runs:
        raise ReportError(f"ratio_to is {reference!r}; the schedulers are {', '.join(league.runs)}")
    complete = league.complete()
    ranks = [{} if found is None else found.rank_of for found in (everywhere, common)]
    rows = []
    for name, found in league.runs.items():
        labels, runs = league.labels(name), list(found.values())
        times_ms = np.array([run.row.metrics["decision_ms_mean"] for run in runs])
        rows.append(
            LeagueRow(
                scheduler=name,
                information=labels.information,
                role=labels.role,
                agents=labels.agents,
                runs=len(runs),
                fewer=name not in complete,
                jct_s=_over_blocks(runs, METRIC, confidence),
                jct_p95_s=_over_blocks(runs, "jct_p95_s", confidence),
                ratio=None if name == reference else _ratio(league, name, reference, confidence),
                rank=ranks[0].get(name, np.nan),
                common_rank=ranks[1].get(name, np.nan),
                undone=uncounted(run.row for run in runs) > 0,
                decision_ms=mean_of(times_ms[~np.isnan(times_ms)]),
            )
        )
    return sorted(rows, key=_order)


def default_reference(league: League, everywhere: Ranking | None) -> str:
    """The best of those that ran everywhere and do not know true durations.

    By mean rank; too few for ranks by geometric mean JCT.
    """
    names = league.complete() if everywhere is None else list(everywhere.names)
    known = [name for name in names if league.labels(name).information != "oracle"] or names
    if everywhere is None:
        jct_s = {
            name: {place: run.row.metrics[METRIC] for place, run in league.runs[name].items()}
            for name in known
        }
        known = [best for best in (best_of(jct_s),) if best is not None]
    return next(iter([*known, *league.runs]))


def _order(row: LeagueRow) -> tuple[float, float, str]:
    ratio = 1.0 if row.ratio is None else row.ratio.centre
    return (np.inf if np.isnan(row.rank) else row.rank), ratio, row.scheduler


def by_block(values: Mapping[Place, float], at: Mapping[Place, LeagueRun]) -> dict[Block, float]:
    """Means over the places of each block: cells share jobs, blocks do not."""
    found: dict[Block, list[float]] = defaultdict(list)
    for place, value in values.items():
        found[at[place].block].append(value)
    return {block: float(np.mean(each)) for block, each in found.items()}


def _over_blocks(runs: Sequence[LeagueRun], key: str, confidence: float) -> Interval:
    """Mean over blocks of the mean over a block's cells."""
    at = {run.place: run for run in runs}
    means = by_block({place: run.row.metrics[key] for place, run in at.items()}, at)
    return mean_over(means, {run.block: run.cluster for run in runs}, confidence)


def _ratio(league: League, name: str, reference: str, confidence: float) -> Interval | None:
    """Geometric mean of the ratio where both ran; None where they never met."""
    ours, theirs = league.runs[name], league.runs[reference]
    logs = {
        place: float(np.log(run.row.metrics[METRIC] / theirs[place].row.metrics[METRIC]))
        for place, run in ours.items()
        if place in theirs
    }
    if not logs:
        return None
    cluster_of = {run.block: run.cluster for run in ours.values()}
    return ratio_over(by_block(logs, ours), cluster_of, confidence)


def league_csv(rows: Sequence[LeagueRow]) -> bytes:
    """The table with all figures; an empty cell is a value that is not there."""
    lines = []
    for row in rows:
        ratio = row.ratio or UNKNOWN
        who = row.scheduler, row.information, row.role, row.agents, row.runs, int(row.fewer)
        times = *row.jct_s.numbers, row.jct_p95_s.centre, *ratio.numbers
        lines.append(known_cells([*who, *times, row.rank, row.common_rank, row.decision_ms]))
    return csv_text(CSV_COLUMNS, lines).encode()


def league_cells(row: LeagueRow, confidence: float) -> tuple[str, ...]:
    """Texts of one line under `HEADERS`."""
    rank = "-" if np.isnan(row.rank) else f"{row.rank:.2f}"
    if np.isnan(row.rank) and not np.isnan(row.common_rank):
        rank = f"({row.common_rank:.2f})"
    name = row.scheduler + (" †" if row.fewer else "") + (UNDONE if row.undone else "")
    few = " ‡" if mark((row.ratio or row.jct_s).clusters, confidence) else ""
    return (
        name + few, row.role, str(row.agents), str(row.runs),
        interval_text(row.jct_s, PER_H), interval_text(row.jct_p95_s, PER_H),
        "1 (reference)" if row.ratio is None else ratio_text(row.ratio), rank,
        "compiled" if np.isnan(row.decision_ms) else f"{row.decision_ms:.3g}",
    )  # fmt: skip


def league_note(
    rows: Sequence[LeagueRow],
    *,
    reference: str,
    chosen: bool = False,
    rankings: Sequence[Ranking | None],
    confidence: float,
) -> str:
    """How to read the table; `chosen`: the reference is the best of these very runs."""
    best = ", the best of these very runs, which flatters it" if chosen else ""
    parts = [
        f"Mean JCT ± half width of the {percent(confidence)} t interval over windows of jobs (a "
        "window's value is its mean over the cells that play it), at least as wide as stretches of "
        f"time that windows share tell. JCT ratio: geometric mean over paired runs of mean JCT "
        f"over that of {reference}{best}; below 1 is faster. Decision: mean wall time of one, "
        "unless the whole loop is compiled."
    ]
    for found, words in zip(rankings, ("every cell", "the runs that all have"), strict=True):
        if found is not None:
            parts.append(
                f"Ranks over {words}: {len(found.names)} schedulers, {found.blocks} windows or "
                f"stretches, Friedman chi2 = {found.friedman_chi2:.1f} "
                f"(p = {found.friedman_p:.2g}), Nemenyi critical difference "
                f"{found.critical_difference:.2f} at {found.level:g}."
            )
    if any(row.fewer for row in rows):
        parts.append(
            "† lacks windows or cells that others ran: only its ratio, and its rank in brackets "
            "(over the runs that all have), compare."
        )
    if any(row.undone for row in rows):
        parts.append(UNCOUNTED)
    if any(mark((row.ratio or row.jct_s).clusters, confidence) for row in rows):
        parts.append("‡ too few stretches of time for such an interval: it may cover much less.")
    return " ".join(parts)


def league_text(rows: Sequence[LeagueRow], note: str, *, confidence: float) -> TableText:
    """One table a class of information, whose first two columns are words."""
    tables = [(f"Durations: {each}", tuple(league_cells(r, confidence) for r in rows
               if r.information == each)) for each in INFORMATION]  # fmt: skip
    return TableText(HEADERS, tuple(table for table in tables if table[1]), note)
