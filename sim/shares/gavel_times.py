"""What each job was entitled to and what it received, by type of GPU."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.view import ClusterView


class TimesReceived:
    """Running sums over the stay of each job, (J, T + 1): T types of GPU, and a mix of types."""

    def __init__(self, view: ClusterView) -> None:
        """Start at the view's instant with nothing."""
        shape = len(view.jobs.submit_s), len(view.topology.gpu_types) + 1
        self._at_s = view.now_s
        self._share = np.zeros(shape)  # as of the last program; 0 for jobs that came later
        self._known = np.zeros(shape[0], dtype=np.bool_)  # the last program knew the job
        self._entitled_s = np.zeros(shape)
        self._received_s = np.zeros(shape)

    def count(self, view: ClusterView) -> None:
        """Add the time since the last call: running jobs have run since then."""
        past_s, self._at_s = view.now_s - self._at_s, view.now_s
        if past_s <= 0:
            return
        for jobs in (view.queued, view.running):
            self._entitled_s[jobs] += self._share[jobs] * past_s
        if len(view.running):
            self._received_s[view.running, ways_of(view)] += past_s

    def entitle(self, jobs: IntArray, share: FloatArray) -> None:
        """From now on `jobs` are to have these shares (n, T + 1) of the time."""
        self._share[jobs] = share
        self._known[jobs] = True

    def priority(self, jobs: IntArray, round_s: float) -> tuple[FloatArray, FloatArray]:
        """(n, T + 1) entitled time, the coming round's included, over time received; and shares.

        0 where the share is 0; infinite where nothing was received, and for new jobs.
        """
        share, known = self._share[jobs], self._known[jobs]
        due_s = self._entitled_s[jobs] + share * round_s
        received_s = self._received_s[jobs]
        ratio = np.full(share.shape, np.inf)
        np.divide(due_s, received_s, out=ratio, where=received_s > 0)
        ratio[(share <= 0) & known[:, None]] = 0.0
        ratio[~known] = np.inf
        return ratio, share


def ways_of(view: ClusterView) -> IntArray:
    """(r,) type of GPU of each running job; the number of types where it has several."""
    held = view.jobs.held[view.running]
    begin = np.cumsum(held) - held
    at = np.repeat(view.slot[view.running] - begin, held) + np.arange(held.sum())
    kinds = view.topology.server_gpu_type[view.topology.gpu_server[view.placed[at]]]
    least, most = np.minimum.reduceat(kinds, begin), np.maximum.reduceat(kinds, begin)
    return np.where(least == most, least, len(view.topology.gpu_types)).astype(np.int64)
