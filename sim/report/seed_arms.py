"""Arms that were trained from several seeds each, over one of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray
from sim.metrics.intervals import Interval, mean_interval
from sim.report.errors import ReportError


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
    for these trained policies; `by_seed` shows how much other seeds would move it.

    Args:
        jct_s: (seeds, windows) mean JCTs of each arm, on the same windows; one row for what was
            not trained from seeds.
        whole: the arm that the others are divided by.
        confidence: of the intervals.

    Raises:
        ReportError: an arm has other windows, or other seeds, than the whole.
    """
    base = np.log(jct_s[whole])
    found = []
    for arm, values in jct_s.items():
        if values.shape[1] != base.shape[1] or len(values) not in (1, len(base)):
            raise ReportError(
                f"arm {arm}: {len(values)} seeds of {values.shape[1]} windows, where {whole} has "
                f"{len(base)} of {base.shape[1]}; play all on the same"
            )
        logs = np.log(values) - base  # (seeds of the whole, windows)
        mean = mean_interval(logs.mean(0), confidence)
        centre, low, high = np.exp([mean.centre, mean.low, mean.high]).tolist()
        found.append(
            SeedArm(
                arm=arm,
                seeds=len(values),
                jct_s=float(values.mean()),
                ratio=Interval(centre, low, high, mean.count),
                by_seed=tuple(np.exp(logs.mean(1)).tolist()),
            )
        )
    return found
