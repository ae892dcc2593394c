"""Even layouts inside servers: GPUs in order over sockets, PCIe switches and NVLink islands."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import TopologyError
from sim.topology.inside import NO_ISLAND, Inside
from sim.topology.nearest import nearest
from sim.topology.option_rules import check_counts, check_rates


@dataclass(frozen=True)
class Layout:
    """One server shape's inside; GPU i of n is in part i * parts // n of each division."""

    sockets: int
    pcie_switches: int  # a multiple of sockets
    nvlink_islands: int  # 0: no NVLink
    nvlink_gbps: float
    pcie_gbps: float
    socket_gbps: float

    def __post_init__(self) -> None:
        """Check that the divisions nest and the rates are rates."""
        check_counts({"inside.sockets": self.sockets, "inside.pcie_switches": self.pcie_switches})
        if self.nvlink_islands:
            check_counts({"inside.nvlink_islands": self.nvlink_islands})
        if self.pcie_switches % self.sockets:
            raise TopologyError(
                f"topology.inside.pcie_switches is {self.pcie_switches}; it must be a multiple of "
                f"the {self.sockets} sockets"
            )
        check_rates(
            {
                "inside.nvlink_gbps": self.nvlink_gbps,
                "inside.pcie_gbps": self.pcie_gbps,
                "inside.socket_gbps": self.socket_gbps,
            }
        )

    @property
    def is_flat(self) -> bool:
        """Whether it says no more than one rate for all pairs of GPUs."""
        return (self.sockets, self.pcie_switches, self.nvlink_islands) == (1, 1, 0)

    def all_gpus_gbps(self, gpus: int) -> float:
        """Rate of the slowest hop among all of a server's `gpus` GPUs."""
        if self.nvlink_islands == 1:
            return self.nvlink_gbps
        return self.pcie_gbps if min(gpus, self.pcie_switches) == 1 else self.socket_gbps


def flat_layout(gbps: float) -> Layout:
    """One rate between all GPUs of a server."""
    return Layout(
        sockets=1,
        pcie_switches=1,
        nvlink_islands=0,
        nvlink_gbps=gbps,
        pcie_gbps=gbps,
        socket_gbps=gbps,
    )


def chosen_layout(intra_gbps: float | None, inside: Mapping[str, float] | None) -> Layout:
    """Layout from exactly one of the two ways to state it: one rate, or the whole inside."""
    if inside is not None and intra_gbps is None:
        return layout_of(inside)
    if intra_gbps is None or inside is not None:
        raise TopologyError("topology.intra_gbps and topology.inside: give one of them")
    check_rates({"intra_gbps": intra_gbps})
    return flat_layout(float(intra_gbps))


def layout_of(values: Mapping[str, float]) -> Layout:
    """Layout from a mapping with exactly the fields of `Layout`.

    Raises:
        TopologyError: naming a key that is missing or unknown, with the nearest one.
    """
    known = tuple(Layout.__dataclass_fields__)
    for key in values:
        if key not in known:
            raise TopologyError(
                f"topology.inside.{key} is not a key{nearest(key, known)}; keys: {', '.join(known)}"
            )
    for key in known:
        if key not in values:
            raise TopologyError(f"topology.inside.{key} is missing; keys: {', '.join(known)}")
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TopologyError(f"topology.inside.{key} is {value!r}; it must be a number")
    return Layout(
        sockets=int(values["sockets"]),
        pcie_switches=int(values["pcie_switches"]),
        nvlink_islands=int(values["nvlink_islands"]),
        nvlink_gbps=float(values["nvlink_gbps"]),
        pcie_gbps=float(values["pcie_gbps"]),
        socket_gbps=float(values["socket_gbps"]),
    )


def inside_of(layouts: list[Layout], layout_of_server: IntArray, gpus: IntArray) -> Inside:
    """Layouts applied to S servers: server s has `gpus[s]` GPUs and `layouts[of_server[s]]`."""

    def column(name: str) -> FloatArray:
        return np.array([float(getattr(layout, name)) for layout in layouts])[layout_of_server]

    def part(parts: FloatArray) -> IntArray:
        placed = number * np.repeat(parts.astype(np.int64), gpus) // np.repeat(gpus, gpus)
        return np.asarray(placed, dtype=np.int64)

    number = np.arange(gpus.sum()) - np.repeat(np.cumsum(gpus) - gpus, gpus)  # within the server
    islands = column("nvlink_islands")
    return Inside(
        gpu_socket=part(column("sockets")),
        gpu_switch=part(column("pcie_switches")),
        gpu_island=np.where(np.repeat(islands, gpus) > 0, part(islands), NO_ISLAND),
        nvlink_gbps=column("nvlink_gbps"),
        pcie_gbps=column("pcie_gbps"),
        socket_gbps=column("socket_gbps"),
    )
