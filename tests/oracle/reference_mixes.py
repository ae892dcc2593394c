"""Slow-downs of mixes in the reference simulator: by name of the mix, not by its number."""

from itertools import combinations, combinations_with_replacement

from sim.physics.mix_table import MixTable


class ReferenceMixes:
    """docs/reference/semantics.md, the section on mixes."""

    def __init__(self, table: MixTable) -> None:
        self.most = table.most_aggressors
        profiles = range(table.slowdown.shape[1])
        sizes = range(1, self.most + 1)
        mixes = [mix for n in sizes for mix in combinations_with_replacement(profiles, n)]
        # The columns' order: by size, then by the last profile, then the one before, ...
        ordered = sorted(mixes, key=lambda mix: (len(mix), mix[::-1]))
        self.column = {mix: number for number, mix in enumerate(ordered)}
        self.slowdown = table.slowdown.tolist()

    def slow(
        self, kind: int, victim: int, pairs: list[float], others: list[tuple[int, int]]
    ) -> float:
        """Of the victim beside `others`, (profile, thousandths of the GPU) in order of start."""
        slow, below = 1.0, 0
        for milli in sorted({milli for _, milli in others}):
            there = [profile for profile, theirs in others if theirs >= milli]
            excess = self._excess(kind, victim, pairs, there)
            slow += excess * ((milli - below) / 1000.0)
            below = milli
        return slow

    def _excess(self, kind: int, victim: int, pairs: list[float], there: list[int]) -> float:
        if len(there) <= self.most:
            return self._told(kind, victim, there)
        whole = _sum(pairs, there)
        worst = 0.0
        for part in combinations(there, self.most):
            alone = _sum(pairs, part)
            excess = self._told(kind, victim, part)
            worst = max(worst, excess * (whole / alone) if alone > 0.0 else excess)
        return worst

    def _told(self, kind: int, victim: int, there: list[int] | tuple[int, ...]) -> float:
        return self.slowdown[kind][victim][self.column[tuple(sorted(there))]] - 1.0


def _sum(pairs: list[float], there: list[int] | tuple[int, ...]) -> float:
    total = 0.0
    for profile in there:
        total += pairs[profile] - 1.0
    return total
