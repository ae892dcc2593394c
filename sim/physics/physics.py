"""The physics of one run: catalogue, co-location and communication, over one topology."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sim.arrays import IntArray
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue, HostTables
from sim.physics.laws import NetworkTables
from sim.physics.link_network import LinkNetwork
from sim.physics.mix_table import PAIR_SUM, MixLaw, MixTable, PairTable, Slowing, slowing_of
from sim.topology.topology import Topology, Watts


@dataclass(frozen=True)
class Physics:
    """What turns a placement into a speed; also the form in which schedulers get a belief."""

    catalogue: Catalogue
    pairs: PairTable
    network: NetworkTables
    reference_gpu: str  # GPU type on which the trace's durations were taken
    # What the kernel charges by instead of `network`, which is then what schedulers are told.
    links: LinkNetwork | None = None
    host: HostTables | None = None  # None: cores and PCIe of servers are never scarce
    mix_law: MixLaw = PAIR_SUM  # what several tenants at once do; told from `pairs`
    watts: Mapping[str, Watts] = field(default_factory=dict)  # of GPU types where it is known

    def __post_init__(self) -> None:
        """Check that the tables describe the same catalogue."""
        types, profiles = len(self.catalogue.gpu_types), len(self.catalogue.names)
        if self.pairs.slowdown.shape != (types, profiles, profiles):
            raise PhysicsError(
                f"pair table has shape {self.pairs.slowdown.shape}, the catalogue needs "
                f"{(types, profiles, profiles)}; build both from the same profiles"
            )
        for what, column in (
            ("link network", None if self.links is None else self.links.profile),
            ("host needs", None if self.host is None else self.host.needs.cpu_milli),
        ):
            if column is not None and len(column) != profiles:
                raise PhysicsError(
                    f"{what} of {len(column)} profiles, catalogue of {profiles}; build both from "
                    f"the same profiles"
                )
        self.type_index(self.reference_gpu)

    @cached_property
    def mixes(self) -> MixTable | None:
        """Slow-downs beside several tenants at once; None: the excesses of the pairs add up.

        Raises:
            PhysicsError: the law's table is of other pairs, or too large.
        """
        table = self.mix_law.table(self.pairs)
        if table is not None and not np.array_equal(table.pairs(), self.pairs.slowdown):
            raise PhysicsError("the mix law's table is of other pairs; build it with mix_table")
        return table

    @cached_property
    def slowing(self) -> Slowing:
        """Pairs and mixes as compiled code reads them."""
        return slowing_of(self.pairs, self.mixes)

    def type_index(self, gpu_type: str) -> int:
        """Row of `gpu_type` in the catalogue."""
        if gpu_type not in self.catalogue.gpu_types:
            raise PhysicsError(
                f"GPU type {gpu_type} is not in the profile catalogue; "
                f"use one of {', '.join(self.catalogue.gpu_types)}"
            )
        return self.catalogue.gpu_types.index(gpu_type)

    def server_types(self, topology: Topology) -> IntArray:
        """(S,) catalogue row of each server's GPU type."""
        rows = np.array([self.type_index(name) for name in topology.gpu_types], dtype=np.int64)
        return rows[topology.server_gpu_type]
