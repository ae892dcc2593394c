"""Seconds of a ring all-reduce, without latency: Patarasuk and Yuan 2009, bandwidth term."""

import numpy as np

from sim.arrays import FloatArray

BITS_PER_BYTE = 8.0
BITS_PER_GBIT = 1e9


def ring_share(workers: FloatArray) -> FloatArray:
    """2 (n - 1) / n: bytes a worker sends, as a multiple of the buffer; 0 up to one worker."""
    n = np.maximum(workers, 1.0)
    return 2.0 * (n - 1.0) / n


def transfer_s(num_bytes: FloatArray, gbps: float) -> FloatArray:
    """Seconds to send `num_bytes` once over a link of `gbps`."""
    return BITS_PER_BYTE * num_bytes / (gbps * BITS_PER_GBIT)
