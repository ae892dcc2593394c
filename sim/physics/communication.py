"""Seconds that a gang communicates at a placement: the law of `NetworkTables`, the only one.

It is written for numbers and for arrays of them alike. `comm_of`, `busy_s` and `quiet_s` are for
compiled code; `comm_told`, `told_s` and `columns_s` are the same for callers that are not compiled,
whose tables numba does not know.

Communication time of a gang as tables over how far its placement spreads.

Seconds of a ring all-reduce, without latency: Patarasuk and Yuan 2009, bandwidth term.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.jit import kernel


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


class CommTables(Protocol):
    """Anything that holds the arrays of `NetworkTables` under their names."""

    @property
    def local_s(self) -> FloatArray: ...  # noqa: D102

    @property
    def server_s(self) -> FloatArray: ...  # noqa: D102

    @property
    def rack_s(self) -> FloatArray: ...  # noqa: D102

    @property
    def nic_factor(self) -> FloatArray: ...  # noqa: D102

    @property
    def uplink_factor(self) -> FloatArray: ...  # noqa: D102


class Spread(NamedTuple):
    """How far a placement spreads, and how busy its links are."""

    most: int  # of its GPUs on one server
    servers: int
    racks: int
    nic: int = 1  # multi-server jobs on its busiest NIC, itself included
    uplink: int = 1  # multi-rack jobs on its busiest uplink, itself included


class Comm(NamedTuple):
    """Of one step, by level."""

    local_s: float
    server_s: float  # with nobody else on the NICs
    rack_s: float  # with nobody else on the uplinks
    nic_factor: float
    uplink_factor: float


def _comm(tables: Any, p: Any, spread: Any) -> Any:
    """Of profile `p`; counts beyond a table's end read its last entry."""
    return Comm(
        tables.local_s[p, np.minimum(spread.most, tables.local_s.shape[1] - 1)],
        tables.server_s[p, np.minimum(spread.servers, tables.server_s.shape[1] - 1)],
        tables.rack_s[p, np.minimum(spread.racks, tables.rack_s.shape[1] - 1)],
        tables.nic_factor[np.minimum(spread.nic, len(tables.nic_factor) - 1)],
        tables.uplink_factor[np.minimum(spread.uplink, len(tables.uplink_factor) - 1)],
    )


def _seconds(comm: Any) -> Any:
    """With the other jobs on its links. The order of the sum is the same for all, to the last bit.

    So the placement that work is counted on has speed 1.0 exactly.
    """
    return comm.local_s + comm.server_s * comm.nic_factor + comm.rack_s * comm.uplink_factor


comm_of = cast(Callable[[CommTables, int, Spread], Comm], kernel(_comm))
busy_s = cast(Callable[[Comm], float], kernel(_seconds))


@kernel
def quiet_s(comm: Comm) -> float:
    """With its links to itself."""
    return float(comm.local_s + comm.server_s + comm.rack_s)


def comm_told(tables: CommTables, p: int, spread: Spread) -> Comm:
    """`comm_of` of tables that are not compiled code's."""
    return cast(Comm, _comm(tables, p, spread))


def told_s(tables: CommTables, p: int, spread: Spread) -> float:
    """`busy_s` of the same."""
    return float(_seconds(_comm(tables, p, spread)))


def columns_s(
    tables: CommTables, p: IntArray | slice, most: IntArray, servers: IntArray, racks: IntArray
) -> FloatArray:  # fmt: skip
    """Seconds of many placements, each alone on its links; `slice(None)`: of all profiles."""
    return np.asarray(_seconds(_comm(tables, p, Spread._make((most, servers, racks, 1, 1)))))
