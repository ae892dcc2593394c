"""Communication time of a gang as tables over how far its placement spreads.

Seconds of a ring all-reduce, without latency: Patarasuk and Yuan 2009, bandwidth term.
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray


@dataclass(frozen=True)
class NetworkTables:
    """Seconds an iteration spends in exposed communication.

    comm_s = local_s[p, g] + server_s[p, s] * nic_factor[k] + rack_s[p, r] * uplink_factor[u]
    for a gang with at most g GPUs on one server, spread over s servers in r racks, where k and u
    are the numbers of multi-server (multi-rack) jobs on its busiest NIC (uplink), itself included.
    Counts beyond a table's end read its last entry.
    """

    local_s: FloatArray  # (P, largest server + 1)
    server_s: FloatArray  # (P, servers + 1), 0 up to one server
    rack_s: FloatArray  # (P, racks + 1), 0 up to one rack
    nic_factor: FloatArray  # (K,) factor[0] = factor[1] = 1
    uplink_factor: FloatArray  # (U,)


BITS_PER_BYTE = 8.0
BITS_PER_GBIT = 1e9


def ring_share(workers: FloatArray) -> FloatArray:
    """2 (n - 1) / n: bytes a worker sends, as a multiple of the buffer; 0 up to one worker."""
    n = np.maximum(workers, 1.0)
    return 2.0 * (n - 1.0) / n


def transfer_s(num_bytes: FloatArray, gbps: float) -> FloatArray:
    """Seconds to send `num_bytes` once over a link of `gbps`."""
    return BITS_PER_BYTE * num_bytes / (gbps * BITS_PER_GBIT)
