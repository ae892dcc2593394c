"""Seconds that a gang communicates at a placement: the law of `NetworkTables` in compiled code."""

from typing import NamedTuple, Protocol

from sim.arrays import FloatArray
from sim.jit import kernel


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
    nic: int  # multi-server jobs on its busiest NIC, itself included
    uplink: int  # multi-rack jobs on its busiest uplink, itself included


class Comm(NamedTuple):
    """Of one step, by level."""

    local_s: float
    server_s: float  # with nobody else on the NICs
    rack_s: float  # with nobody else on the uplinks
    nic_factor: float
    uplink_factor: float


@kernel
def _last(index: int, length: int) -> int:
    return index if index < length else length - 1


@kernel
def comm_of(tables: CommTables, p: int, spread: Spread) -> Comm:
    """Of profile `p`; counts beyond a table's end read its last entry."""
    return Comm(
        tables.local_s[p, _last(spread.most, tables.local_s.shape[1])],
        tables.server_s[p, _last(spread.servers, tables.server_s.shape[1])],
        tables.rack_s[p, _last(spread.racks, tables.rack_s.shape[1])],
        tables.nic_factor[_last(spread.nic, len(tables.nic_factor))],
        tables.uplink_factor[_last(spread.uplink, len(tables.uplink_factor))],
    )


@kernel
def busy_s(comm: Comm) -> float:
    """With the other jobs on its links."""
    return float(comm.local_s + comm.server_s * comm.nic_factor + comm.rack_s * comm.uplink_factor)


@kernel
def quiet_s(comm: Comm) -> float:
    """With its links to itself."""
    return float(comm.local_s + comm.server_s + comm.rack_s)
