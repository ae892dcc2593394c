"""Slow-downs of mixes, and scarce cores and PCIe, drawn for hypothesis."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sim.arrays import FloatArray, IntArray
from sim.physics.catalogue import HostNeeds, HostTables
from sim.physics.mix_table import MixTable, PairTable, mix_table
from sim.physics.physics import Physics
from sim.topology.topology import Topology

Draw = Callable[..., Any]


@dataclass(frozen=True)
class RandomMixes:
    """Mixes that their pairs say nothing of, but that each is at least as slow as its parts."""

    most_aggressors: int
    seed: int

    def table(self, pairs: PairTable) -> MixTable:
        rng = np.random.default_rng(self.seed)

        def predict(kind: int, victim: int, mixes: IntArray) -> FloatArray:
            del kind, victim
            return 1.0 + 2.0 * rng.random(len(mixes))

        return mix_table(pairs, self.most_aggressors, predict)


def with_mixes(draw: Draw, physics: Physics) -> Physics:
    """Tables of 2 or 3 aggressors; some pairs do nothing to each other."""
    seed = draw(st.integers(0, 2**32 - 1), label="mixes")
    rng = np.random.default_rng(seed)
    excess = (physics.pairs.slowdown - 1.0) * (rng.random(physics.pairs.slowdown.shape) < 0.7)
    return replace(
        physics,
        pairs=replace(physics.pairs, slowdown=1.0 + excess),
        mix_law=RandomMixes(draw(st.integers(2, 3), label="most aggressors"), seed),
    )


def with_host(draw: Draw, physics: Physics, topology: Topology) -> Physics:
    """Servers of few cores and little PCIe; some workers want nothing of it, some wait for it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="host"))
    count, gpus = len(physics.catalogue.names), topology.gpus_per_server
    return replace(
        physics,
        host=HostTables(
            needs=HostNeeds(
                cpu_milli=rng.choice([0, 1000, 3000, 7000], count),
                pcie_mbs=rng.choice([0, 500, 9000], count),
                wait_frac=rng.choice([0.0, 0.3, 1.0], count),
            ),
            server_cpu_milli=gpus * rng.choice([1000, 3000], len(gpus)),
            server_pcie_mbs=gpus * rng.choice([1500, 4000], len(gpus)),
        ),
    )
