"""Names for runs of one scheduler that differ in nothing a table has a column for."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sim.report.labels import Labels

Overrides = Sequence[str]  # `key=value` each, as on the command line


def told_apart(runs: Sequence[tuple[Labels, Overrides]]) -> list[Labels]:
    """Labels whose scheduler says what was swept, where several runs would have the same.

    `marl` in a sweep over learning rates becomes `marl [algo.learning_rate=0.0003]`. Runs that
    differ in no override stay equal.
    """
    counts = Counter(labels for labels, _ in runs)
    keys: dict[str, set[str]] = {}  # scheduler -> keys in which runs of equal labels differ
    for labels, count in counts.items():
        if count > 1:
            given = [set(overrides) for each, overrides in runs if each == labels]
            differing = set.union(*given) - set.intersection(*given)
            keys.setdefault(labels.scheduler, set()).update(map(_key, differing))
    return [
        _named(labels, overrides, keys.get(labels.scheduler, set())) for labels, overrides in runs
    ]


def _named(labels: Labels, overrides: Overrides, keys: set[str]) -> Labels:
    words = sorted(word for word in overrides if _key(word) in keys)
    if not words:
        return labels
    return replace(labels, scheduler=f"{labels.scheduler} [{' '.join(words)}]")


def _key(override: str) -> str:
    return override.partition("=")[0]
