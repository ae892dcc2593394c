"""A profile catalogue whose rows are for gangs of one size each."""

from dataclasses import dataclass

from sim.arrays import FloatArray, IntArray
from sim.physics.catalogue import Catalogue


@dataclass(frozen=True, kw_only=True)
class GangCatalogue(Catalogue):
    """Profiles whose communication depends on the gang itself, so that each gang has rows.

    A job is given a row of its gang (`sim.traces.profiles`).
    """

    gang: IntArray  # (P,) GPUs that the row is for, 1 or more
    sync_s: FloatArray  # (P,) seconds of all-reduce an iteration, in one rack
    tflop: FloatArray  # (P,) floating-point work of one iteration of the whole gang, in 1e12
