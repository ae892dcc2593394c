"""How to read the comparison table: the words below it."""

from collections.abc import Sequence

from sim.metrics.clustered import most_coverage
from sim.report.standings import Setting

FEW = " †"  # marks intervals over fewer stretches of time than their confidence needs


def mark(stretches: int | None, confidence: float) -> str:
    """`FEW` where so many stretches cannot give the confidence; None: windows are random."""
    few = stretches is not None and most_coverage(stretches) < confidence
    return FEW if few else ""


def table_note(
    settings: Sequence[Setting], with_ratio: bool, ours: str | None, confidence: float
) -> str:
    """One paragraph.

    Args:
        settings: those of the table.
        with_ratio: there are paired ratios.
        ours: scheduler that the others are divided by.
        confidence: of the intervals.
    """
    every = [standing for setting in settings for standing in setting.standings]
    counts = {s.intervals["jct_mean_s"].count for s in every if "jct_mean_s" in s.intervals}
    stretches = sorted({s.stretches for s in settings if s.stretches is not None})
    parts = [_spread_note(counts, stretches, confidence)] if counts else []
    if with_ratio:
        parts.append(
            f"ours / theirs: geometric mean of the paired ratios of mean JCT, ours = {ours}; "
            "below 1 ours is faster."
        )
    parts += _stretch_notes(stretches, with_ratio, confidence)
    if any(s.unfinished for s in every):
        parts.append("* left measured jobs unfinished, which its means do not count.")
    return " ".join(parts)


def _spread_note(counts: set[int], stretches: Sequence[int], confidence: float) -> str:
    if counts == {1}:
        return "One run each, so no intervals; sorted by mean JCT."
    repeats = " to ".join(str(count) for count in sorted({min(counts), max(counts)}))
    if any(count > 1 for count in stretches):
        return (
            f"Mean ± half width of the {confidence:.0%} interval over {repeats} windows, "
            "bootstrapped by stretch of time where a table names stretches, else t; sorted by mean "
            "JCT."
        )
    return (
        f"Mean ± half width of the {confidence:.0%} t interval over {repeats} windows "
        "(over seeds where there is one window); sorted by mean JCT."
    )


def _stretch_notes(stretches: Sequence[int], with_ratio: bool, confidence: float) -> list[str]:
    """How to read intervals over windows that share stretches of time."""
    notes = []
    if stretches and with_ratio:
        notes.append(
            "Effective windows: independent ones that the paired ratios are worth, n / (1 + (m - 1)"
            " r) with r their correlation within a stretch and m its windows."
        )
    few = [count for count in stretches if mark(count, confidence)]
    return notes + [f"{FEW.strip()} {_too_few(count)}" for count in few]


def _too_few(stretches: int) -> str:
    if stretches == 1:
        return (
            "1 stretch: intervals are t, over windows of the same days, and say nothing of others."
        )
    return f"{stretches} stretches: an interval covers at most {most_coverage(stretches):.0%}."
