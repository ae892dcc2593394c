"""Runs of a league by scheduler, cell and window: what ranks and the league table are made of."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray
from sim.report.comparison_row import ComparisonRow
from sim.report.errors import ReportError
from sim.report.labels import Labels
from sim.report.ranks import LEAST_COMPARED, Ranking, ranking
from sim.report.run_names import run_names

METRIC = "jct_mean_s"
LEAST_BLOCKS = 2

Place = tuple[str, int, int]  # cell, seed, window: what one run of a scheduler is paired by
Block = tuple[str, int, int]  # workload, seed, window


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


def block_scores(
    league: League, names: Sequence[str], places: set[Place]
) -> tuple[list[Block], FloatArray]:
    """Blocks, and the (N, k) mean of ln(mean JCT) over the places of each; all `names` ran there.

    Cells that differ in load or topology alone play the same jobs, so they make one block.
    """
    members: dict[Block, list[Place]] = defaultdict(list)
    for place in sorted(places):
        members[league.runs[names[0]][place].block].append(place)
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
    if len(names) < LEAST_COMPARED or not places:
        return None
    blocks, scores = block_scores(league, names, places)
    return ranking(names, scores, level=level) if len(blocks) >= LEAST_BLOCKS else None
