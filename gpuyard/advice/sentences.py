"""The answer in words: without preemption, with it, and what knowing durations is worth."""

from collections.abc import Sequence

import numpy as np

from gpuyard.advice.aims import AIMS
from gpuyard.advice.playing import LEARNED, WHAT_HAPPENED, Played
from sim.arrays import FloatArray
from sim.times import unit_for

FIRST_COME = "fifo"
MOST_NAMES = 3
SAME = "as much"
CLAUSES = {  # information -> what its scheduler is told, as a clause
    "none": "is told nothing of durations",
    "limit": "is told users' time limits",
    "predicted": "is told durations learned from finished jobs",
    "oracle": "knows the true durations",
}
SOURCES = {
    "limit": "with users' time limits",
    "predicted": "with durations learned from finished jobs",
    "oracle": "with the true ones, which nobody can run,",
}


def runnable(row: Played) -> bool:
    """Whether a real cluster could run it: it is simulated, and no oracle."""
    return row.information in CLAUSES and row.information != "oracle"


def ranked(rows: Sequence[Played], aim: str) -> list[Played]:
    """Best first; what has no value comes last, equal rows by name."""
    sign = -1.0 if AIMS[aim].more_is_better else 1.0

    def key(row: Played) -> tuple[bool, float, str]:
        value = float(row.draws[aim][0])
        return bool(np.isnan(value)), sign * value, row.name

    return sorted(rows, key=key)


def interval_of(draws: FloatArray, confidence: float) -> tuple[float, float]:
    """Percentile interval of the bootstrap (1 + R,); NaN where most draws have no value."""
    tail = (1.0 - confidence) / 2.0
    known = draws[1:][np.isfinite(draws[1:])]
    if not len(known) or 2 * len(known) < len(draws) - 1:
        return float("nan"), float("nan")
    low, high = np.quantile(known, [tail, 1.0 - tail])
    return float(low), float(high)


def ratio_of(one: FloatArray, other: FloatArray) -> FloatArray:
    """(1 + R,) one / other, paired draw by draw; NaN where other is 0."""
    ratio: FloatArray = np.divide(one, other, out=np.full(len(one), np.nan), where=other != 0)
    return ratio


def alike(one: FloatArray, other: FloatArray, confidence: float) -> bool:
    """Whether the paired interval of the difference holds 0."""
    low, high = interval_of(one - other, confidence)
    return not (low > 0 or high < 0)


def sentences(rows: Sequence[Played], aim: str, confidence: float) -> tuple[str, str, str]:
    """What to take without preemption, what preemption would add, what durations are worth."""
    order = [row for row in ranked(rows, aim) if not np.isnan(row.draws[aim][0])]
    still = [row for row in order if not row.preempts and row.information in CLAUSES]
    moving = [row for row in order if row.preempts and runnable(row)]
    return (
        _without(order, [row for row in still if runnable(row)], aim, confidence),
        _preemption([row for row in still if runnable(row)], moving, aim, confidence),
        _durations(still, aim, confidence),
    )


def settings(rows: Sequence[Played], aim: str) -> str:
    """The words that play what the sentences say to take; nothing where there are none."""
    order = [row for row in ranked(rows, aim) if not np.isnan(row.draws[aim][0]) and runnable(row)]
    best = [next((row for row in order if row.preempts == moves), None) for moves in (False, True)]
    words = [f"{row.name} by `{row.words}`" for row in best if row is not None and row.words]
    return f"They are played by themselves with these words: {'; '.join(words)}." if words else ""


def _without(order: Sequence[Played], still: Sequence[Played], aim: str, confidence: float) -> str:
    if not still:
        return "Without preemption: no scheduler of the line-up was played."
    best = still[0]
    parts = [f"{AIMS[aim].words} {spread(best, aim, confidence)}"]
    for name in (FIRST_COME, WHAT_HAPPENED, LEARNED):
        rival = next((row for row in order if row.contender == name and row is not best), None)
        if rival is not None:
            parts.append(compared(best, rival, aim, confidence))
    words = f"Without preemption take {best.name}, which {CLAUSES[best.information]}: "
    same = [row.name for row in still[1:] if alike(row.draws[aim], best.draws[aim], confidence)]
    more = f" and {len(same) - MOST_NAMES} more" if len(same) > MOST_NAMES else ""
    tail = f"; not told apart from it: {'; '.join(same[:MOST_NAMES])}{more}" if same else ""
    return f"{words}{', '.join(parts)}{tail}."


def _preemption(
    still: Sequence[Played], moving: Sequence[Played], aim: str, confidence: float
) -> str:  # fmt: skip
    if not moving:
        return "Preemption: no scheduler of the line-up that preempts was played."
    best = moving[0]
    lost = float(best.draws["lost_gpu_h"][0])
    price = f"{best.stops_per_job:.2f} stops a job and {lost:,.0f} GPU-hours lost"
    who = f"{best.name}, which {CLAUSES[best.information]}"
    has = f"{AIMS[aim].words} {spread(best, aim, confidence)}"
    if not still:
        return f"With preemption take {who}: {has}, for {price}."
    than = compared(best, still[0], aim, confidence)
    if alike(best.draws[aim], still[0].draws[aim], confidence):
        begin = "nothing that these jobs can tell: the best that preempts,"
    elif ranked([best, still[0]], aim)[0] is best:
        begin = "this:"
    else:
        begin = "nothing: the best that preempts,"
    return f"Preemption would add {begin} {who}, has {has}, {than}, for {price}."


def _durations(still: Sequence[Played], aim: str, confidence: float) -> str:
    """Without preemption, where what is known makes the order."""
    best = {name: next((row for row in still if row.information == name), None) for name in CLAUSES}
    blind = best.pop("none")
    if blind is None:
        return (
            "What knowing durations is worth: no scheduler that is told nothing and never preempts "
            "was played."
        )
    parts = []
    for name, row in best.items():
        if row is not None:
            parts.append(f"{SOURCES[name]} {row.name} {change(row, blind, aim, confidence)}")
    have = f"{AIMS[aim].words} {spread(blind, aim, confidence)}"
    worth = "; ".join(parts) or "nothing that reads durations and never preempts was played"
    start = f"Knowing durations, nobody preempting: without them {blind.name} is best, {have}"
    return f"{start}; {worth}."


def of_learned(
    rows: Sequence[Played], aim: str, confidence: float, history: str, *,
    waited_frac: float, work_s: float,
) -> str:  # fmt: skip
    """How a policy for this very cluster stands, and why it is behind where it is.

    `history` is how it was learned, `waited_frac` the share of their time that jobs waited there,
    `work_s` the mean run time of the judged jobs, without waits.
    """
    order = [row for row in ranked([row for row in rows if not row.failed], aim) if runnable(row)]
    mine = next((row for row in order if row.contender == LEARNED), None)
    if mine is None:
        return f"Learned: {history}; it could not be played on the judged jobs."
    best = next((row for row in order if row is not mine), mine)
    parts = [history]
    if aim != "jct_mean_s":
        parts.append(f"it is taught mean JCT, not {AIMS[aim].words}")
    stands = f"on the judged jobs it has {AIMS[aim].words} {spread(mine, aim, confidence)}"
    if mine is order[0]:
        parts.append(f"{stands}, {compared(mine, best, aim, confidence)}, the next")
        return f"Learned: {'; '.join(parts)}."
    parts.append(f"{stands}, {compared(mine, best, aim, confidence)}, the best")
    if alike(mine.draws[aim], best.draws[aim], confidence):
        parts.append("these jobs cannot tell the two apart")
    if best.preempts and not mine.preempts:
        parts.append(f"{best.name} preempts and it does not")
    if best.information == "none" and mine.information != "none":
        parts.append(f"it trusts what it is told of durations, {best.name} is told nothing")
    judged = max(1.0 - work_s / float(best.draws["jct_mean_s"][0]), 0.0)
    parts.append(
        f"jobs waited {100 * waited_frac:.0f}% of their time where it was learned, the judged ones "
        f"{100 * judged:.0f}% with {best.name}"
    )
    return f"Learned: {'; '.join(parts)}."


def compared(one: Played, other: Played, aim: str, confidence: float) -> str:
    """`change` in a sentence about `one`."""
    found = change(one, other, aim, confidence)
    return f"{found} {'as' if found.startswith(SAME) else 'than'} {other.name}"


def change(one: Played, other: Played, aim: str, confidence: float) -> str:
    """How much less or more `one` has than `other`, with the paired interval."""
    ratio = ratio_of(one.draws[aim], other.draws[aim])
    if np.isnan(ratio[0]):
        difference = float(one.draws[aim][0] - other.draws[aim][0])
        word = "less" if difference < 0 else "more"
        return f"{value_text(abs(difference), aim)} {word}" if difference else SAME
    percent = 100.0 * (ratio - 1.0)
    ends = interval_of(percent, confidence)
    size, *far = map(_changed, (float(percent[0]), *ends))
    if np.isnan(ends).any() or {size, *far} == {SAME}:
        return size
    if ends[0] * ends[1] <= 0:
        return f"{size} [{far[0]} to {far[1]}: not clear of zero]"
    low, high = sorted(map(abs, ends))
    return f"{size} [{_percent(low)} to {_percent(high)}]"


def _changed(percent: float) -> str:
    change = _percent(abs(percent))
    return SAME if change == _percent(0.0) else f"{change} {'less' if percent < 0 else 'more'}"


def _percent(size: float) -> str:
    """With a digit more below 1."""
    return f"{size:.{1 if size < 1 else 0}f}".removesuffix(".0") + "%"


def spread(row: Played, aim: str, confidence: float) -> str:
    """The value and its interval in one unit."""
    value = float(row.draws[aim][0])
    low, high = interval_of(row.draws[aim], confidence)
    if np.isnan([low, high]).any():
        return value_text(value, aim)
    factor, unit, form = scale_of([value], aim)
    return f"{value * factor:{form}}{unit} [{low * factor:{form}}, {high * factor:{form}}]"


def value_text(value: float, aim: str) -> str:
    """One value with its unit."""
    factor, unit, form = scale_of([value], aim)
    return f"{value * factor:{form}}{unit}"


def scale_of(values: Sequence[float], aim: str) -> tuple[float, str, str]:
    """Factor, unit and format for numbers of one kind."""
    kind = AIMS[aim].kind
    if kind == "time":
        unit = unit_for(values)
        return 1.0 / unit.length_s, f" {unit.name}", ",.2f" if unit.length_s > 1 else ",.1f"
    if kind == "share":
        return 100.0, "%", ".1f"
    return (1.0, "", ".3f") if kind == "index" else (1.0, " GPU h", ",.0f")
