"""A profile catalogue that also says in how many messages an iteration's gradients go."""

from dataclasses import dataclass

from sim.arrays import IntArray
from sim.physics.catalogue import Catalogue


@dataclass(frozen=True, kw_only=True)
class LayeredCatalogue(Catalogue):
    """Profiles whose gradients are reduced layer by layer."""

    layers: IntArray  # (P,) layers that send gradients, 1 or more
