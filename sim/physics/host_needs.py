"""What the workers of a profile want of their server's cores and PCIe: a model of four classes.

Nobody has measured this for the profiles here. The classes follow published stage times of training
jobs on one GPU (storage and preprocessing against compute: 711 against 110 ms for a small ResNet on
images, 117 against 68 for VGG16, 0.5 against 160 for BERT); cores and traffic are assumptions.
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.errors import PhysicsError


@dataclass(frozen=True)
class HostNeeds:
    """Of each GPU of a job, P profiles."""

    cpu_milli: IntArray  # (P,) thousandths of a core kept busy
    pcie_mbs: IntArray  # (P,) MB/s moved between host and GPU
    wait_frac: FloatArray  # (P,) part of the compute step that waits on the host, 0 to 1

    def __post_init__(self) -> None:
        """Check shapes and ranges."""
        if not self.cpu_milli.shape == self.pcie_mbs.shape == self.wait_frac.shape:
            raise PhysicsError("host needs: cpu_milli, pcie_mbs and wait_frac differ in length")
        if np.any(self.cpu_milli < 0) or np.any(self.pcie_mbs < 0):
            raise PhysicsError("host needs: cpu_milli or pcie_mbs is below 0")
        if not np.all((self.wait_frac >= 0.0) & (self.wait_frac <= 1.0)):
            raise PhysicsError("host needs: a wait_frac is not between 0 and 1")


# class: cpu_milli, pcie_mbs, wait_frac
HOST_BOUND = (6000, 1000, 0.8)  # decoding and augmenting images on cores; large look-ups
MIXED = (3000, 1500, 0.5)
GPU_BOUND = (1000, 100, 0.0)
NETWORK_BOUND = (1000, 3000, 0.2)  # gradients leave and come back through PCIe
CLASS_OF = {
    "LM": NETWORK_BOUND,
    "Recommendation": HOST_BOUND,
    "ResNet-18": HOST_BOUND,
    "ResNet-50": MIXED,
    "Transformer": GPU_BOUND,
}


def host_needs(names: tuple[str, ...]) -> HostNeeds | None:
    """Needs of profiles "model/batch" by the class of their model; None if one has no class."""
    models = [name.rpartition("/")[0] for name in names]
    if any(model not in CLASS_OF for model in models):
        return None
    cpu_milli, pcie_mbs, wait_frac = zip(*(CLASS_OF[model] for model in models), strict=True)
    return HostNeeds(
        cpu_milli=np.array(cpu_milli, dtype=np.int64),
        pcie_mbs=np.array(pcie_mbs, dtype=np.int64),
        wait_frac=np.array(wait_frac, dtype=np.float64),
    )
