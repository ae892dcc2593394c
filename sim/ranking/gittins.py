"""The Gittins index of a job, from the services that others of its kind had attained when done."""

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import array_kernel


def gittins_index(quanta: IntArray) -> FloatArray:
    """Index of a job that has attained k whole quanta of service, for each k.

    With N the quanta that a job takes until it is done, the index is (Gittins 1979; Gu et al., NSDI
    2019, section 3.2)

        G(k) = max over d >= 1 of P(N <= k + d | N > k) / E[min(N - k, d) | N > k],

    the best chance to be done per quantum spent. With x_k the sum of P(N > i) for i < k and
    y_k = P(N <= k), that is the steepest slope from the point (x_k, y_k) to a later one, so the
    upper hull of the points gives all of them in one pass from right to left.

    Args:
        quanta: (n,) quanta that finished jobs took, each 1 or more, n >= 1.

    Returns:
        (most quanta,) the index for k = 0, 1, ...; nobody is known to take more.
    """
    done_frac = np.cumsum(np.bincount(quanta)) / len(quanta)
    spent = np.concatenate([[0.0], np.cumsum(1.0 - done_frac[:-1])])
    return _steepest(spent, done_frac)


@array_kernel
def _steepest(x: FloatArray, y: FloatArray) -> FloatArray:
    """(m - 1,) steepest slope from each of m points to a later one; x ascends strictly."""
    last = len(x) - 1
    slope = np.empty(last)
    after = np.empty(last, dtype=np.int64)  # next corner of the hull of the points from here on
    for here in range(last - 1, -1, -1):
        to = here + 1
        best = (y[to] - y[here]) / (x[to] - x[here])
        while to < last and slope[to] >= best:
            to = after[to]
            best = (y[to] - y[here]) / (x[to] - x[here])
        slope[here] = best
        after[here] = to
    return slope
