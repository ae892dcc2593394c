"""The answer as values: a frame, sentences, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuyard.advice.aims import AIMS
from gpuyard.advice.playing import Played
from gpuyard.advice.sentences import interval_of, ranked, ratio_of, runnable, sentences
from gpuyard.launch.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

MISSING = {  # aim -> why nobody has it
    "user_fairness": "no job names its user; map the column (workload.columns.user of a CSV)",
    "large_gang_wait_s": "no job is that large; set large_gang to fewer GPUs",
    "gpu_util_frac": "all jobs come at one time, so that there is no span to measure",
}


@dataclass(frozen=True)
class Advice:
    """What to take, for whoever runs the cluster."""

    frame: pd.DataFrame  # a row a scheduler, best first; docs/advise.md has its columns
    sentences: tuple[str, str, str]
    aim: str  # column of `frame` by which it is ranked
    confidence: float  # of the intervals
    left_out: tuple[str, ...]  # schedulers and jobs, with the reason and the key
    notes: tuple[str, ...]  # what the runs took for granted
    learned: Path | None = None  # weights of a policy for this cluster
    about_learned: str = ""  # a sentence on it: how it was learned, how it stands, why it is behind
    plays_learned: tuple[str, ...] = ()  # the commands that play it

    @property
    def said(self) -> tuple[str, ...]:
        """The sentences, with the one on what was learned."""
        return (*self.sentences, *([self.about_learned] if self.about_learned else []))

    def __str__(self) -> str:
        """The sentences."""
        return "\n".join(self.said)

    def _repr_html_(self) -> str:
        """For notebooks: the sentences above the frame."""
        words = "".join(f"<p>{sentence}</p>" for sentence in self.said)
        table: str = self.frame.to_html(float_format="{:.4g}".format, na_rep="-")
        return words + table


def advice_of(
    rows: Sequence[Played],
    *,
    aim: str,
    confidence: float,
    left_out: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Advice:
    """Rank the rows.

    Raises:
        ConfigError: no row has a value of the aim.
    """
    import pandas as pd

    done = [row for row in rows if not row.failed]
    failed = [f"{row.name}: {row.failed}" for row in rows if row.failed]
    if all(np.isnan(row.draws[aim][0]) for row in done):
        why = MISSING.get(aim, "; ".join(failed) or "no scheduler was played")
        raise ConfigError(f"aim is {aim}, of which no scheduler has a value: {why}")
    order = ranked(done, aim)
    best = next((row for row in order if runnable(row)), order[0])
    frame = pd.DataFrame([_cells(row, best, aim, confidence) for row in order])
    frame.insert(0, "rank", np.arange(1, len(order) + 1))
    return Advice(
        frame=frame,
        sentences=sentences(done, aim, confidence),
        aim=aim,
        confidence=confidence,
        left_out=(*left_out, *failed),
        notes=tuple(notes),
    )


def _cells(row: Played, best: Played, aim: str, confidence: float) -> dict[str, Any]:
    """One row of the frame."""
    ratio = ratio_of(row.draws[aim], best.draws[aim])
    low, high = interval_of(ratio, confidence)
    cells: dict[str, Any] = {
        "scheduler": row.name,
        "composition": row.scheduler,
        "information": row.information,
        "bound": row.information == "oracle",
        "needs": " ".join(row.needs),
        "preempts": row.preempts,
        "stops_per_job": row.stops_per_job,
        "ratio_to_best": float(ratio[0]),
        "ratio_low": low,
        "ratio_high": high,
    }
    for key in AIMS:
        ends = interval_of(row.draws[key], confidence)
        cells |= {key: float(row.draws[key][0]), f"{key}_low": ends[0], f"{key}_high": ends[1]}
    return {**cells, "jobs": row.jobs, "jobs_withdrawn": row.withdrawn, "wall_s": row.seconds}
