"""What the last search hoped for, kept for the decisions until the next one."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.dag.online.search import Hope


class Memory:
    """Hopes by workflow and task of a whole run."""

    def __init__(self, jobs: int, workflows: int) -> None:
        """Nothing was searched."""
        self._finish_s = np.full(workflows, np.nan)  # (W,) at this time of the run
        self._factor = np.ones(jobs)  # (J,) hoped time to go over that of the mean lengths

    def keep(
        self, hope: Hope, now_s: float, workflows: IntArray, jobs: IntArray, to_go_s: FloatArray
    ) -> None:
        """The hope that was found for `workflows` (w,) and their `jobs` (n,)."""
        self._finish_s[workflows] = hope.finish_s + now_s
        known = to_go_s > 0.0
        self._factor[jobs[known]] = hope.to_go_s[known] / to_go_s[known]

    def hope(
        self, now_s: float, workflows: IntArray, jobs: IntArray, to_go_s: FloatArray,
        plain: Hope,
    ) -> Hope:  # fmt: skip
        """The same with today's times to go; those that were not there then go where `plain` says.

        A new workflow hopes for what the next known one in the order of `plain` hopes for.
        """
        finish = self._finish_s[workflows] - now_s
        fresh = np.flatnonzero(np.isnan(finish))
        known = np.flatnonzero(~np.isnan(finish))
        if len(known) == 0:
            return plain
        ranked = known[np.argsort(plain.finish_s[known], kind="stable")]
        place = np.searchsorted(plain.finish_s[ranked], plain.finish_s[fresh])
        behind = finish[ranked[np.minimum(place, len(ranked) - 1)]]
        last = float(finish[known].max()) + float(to_go_s.max())
        finish[fresh] = np.where(place < len(ranked), behind, last)
        return Hope(finish, to_go_s * self._factor[jobs])
