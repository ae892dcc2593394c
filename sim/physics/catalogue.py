"""The catalogue of training profiles, and what their workers want of cores and PCIe.

Nobody has measured the latter for the profiles here. Its four classes follow published stage times
of jobs on one GPU (storage and preprocessing against compute: 711 against 110 ms for a small ResNet
on images, 117 against 68 for VGG16, 0.5 against 160 for BERT); cores and traffic are assumptions.

Contention of a server's cores and PCIe: which servers have how much, and what jobs want of it.

The host part of a step stretches by demand over capacity of the scarcer of the two, where the
demand of all workers on the server exceeds it (docs/reference/semantics.md, Work).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import PhysicsError, check_numbers
from sim.topology.topology import Topology


def plain(name: str) -> str:
    """Letters and digits of a name: "ResNet-50" and "resnet50" are one."""
    return "".join(sign for sign in name.lower() if sign.isalnum())


def throughputs(steps_s: FloatArray, speedup: FloatArray | None) -> FloatArray:
    """(P, N + 1) throughput of n GPUs, most compact, over that of one; column 0 is 0.

    Where nobody measured, n GPUs do n steps' worth of samples in the modelled step, `steps_s`
    (P, N + 1); beyond a measured number that model goes on from the largest measured one below.
    `speedup` (P, .) is measured throughput over that of one GPU, NaN where not; None: nothing is.
    """
    profiles, width = steps_s.shape
    numbers = np.arange(width)
    modelled: FloatArray = numbers * steps_s[:, 1:2] / steps_s
    if speedup is None:
        return modelled
    measured = np.full((profiles, width), np.nan)
    shown = min(width, speedup.shape[1])
    measured[:, 1:shown] = speedup[:, 1:shown]
    known = np.isfinite(measured)
    anchor = np.maximum.accumulate(np.where(known, numbers, 0), axis=1)
    row = np.arange(profiles)[:, None]
    onwards = measured[row, anchor] * (modelled / modelled[row, anchor.clip(1)])
    return np.where(known, measured, np.where(anchor > 0, onwards, modelled))


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
    "LM": NETWORK_BOUND, "Recommendation": HOST_BOUND, "ResNet-18": HOST_BOUND, "ResNet-50": MIXED,
    "Transformer": GPU_BOUND,
}  # fmt: skip


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


@dataclass(frozen=True)
class Catalogue:
    """P model profiles on T GPU types."""

    names: tuple[str, ...]  # P names, "model/batch" (batch 0: not given)
    gpu_types: tuple[str, ...]  # T names, for example ("k80", "p100", "v100")
    compute_s: FloatArray  # (P, T) seconds an iteration, alone on one GPU
    sync_bytes: FloatArray  # (P,) gradient bytes an iteration that compute does not hide
    gang_ok: BoolArray  # (P,) may be given to multi-GPU jobs
    source: str  # "measured" or "shipped"
    # (P, N + 1) throughput of n GPUs, most compact, over that of one; NaN where nobody measured
    speedup: FloatArray | None = None
    host: HostNeeds | None = None  # what each GPU's worker wants of its server; None: unknown


@dataclass(frozen=True, kw_only=True)
class GangCatalogue(Catalogue):
    """Profiles whose communication depends on the gang itself, so that each gang has rows.

    A job is given a row of its gang (`sim.traces.job_traits`).
    """

    gang: IntArray  # (P,) GPUs that the row is for, 1 or more
    sync_s: FloatArray  # (P,) seconds of all-reduce an iteration, in one rack
    tflop: FloatArray  # (P,) floating-point work of one iteration of the whole gang, in 1e12


@dataclass(frozen=True, kw_only=True)
class LayeredCatalogue(Catalogue):
    """Profiles whose gradients are reduced layer by layer."""

    layers: IntArray  # (P,) layers that send gradients, 1 or more


@dataclass(frozen=True, kw_only=True)
class StatedModel:
    """One model: what an iteration computes and exchanges."""

    step_s: float  # an iteration of one worker alone, without communication
    gradient_bytes: float  # of the whole model, that compute does not hide

    def __post_init__(self) -> None:
        """Check ranges; PhysicsError names the key, the value and the rule."""
        check_numbers("profiles", "above 0", PhysicsError, step_s=self.step_s)
        check_numbers("profiles", "0 or more", PhysicsError, gradient_bytes=self.gradient_bytes)


class StatedProfiles(Catalogue):
    """One profile a model, equally fast on every GPU type, all of them fit for gangs."""

    def __init__(self, *, gpu_types: list[str], models: Mapping[str, StatedModel]) -> None:
        """`models`: name, as `Catalogue.names`, -> numbers; a PhysicsError where none is given."""
        if not gpu_types or not models:
            raise PhysicsError("profiles state no gpu_types or no models; name at least one each")
        steps_s = np.array([[model.step_s] for model in models.values()], dtype=np.float64)
        super().__init__(
            names=tuple(models),
            gpu_types=tuple(gpu_types),
            compute_s=np.repeat(steps_s, len(gpu_types), axis=1),
            sync_bytes=np.array(
                [model.gradient_bytes for model in models.values()], dtype=np.float64
            ),
            gang_ok=np.ones(len(models), dtype=np.bool_),
            source="stated",
        )


@dataclass(frozen=True)
class HostTables:
    """What the kernel reads."""

    needs: HostNeeds
    server_cpu_milli: IntArray  # (S,) above 0
    server_pcie_mbs: IntArray  # (S,) above 0

    def __post_init__(self) -> None:
        """Check that no server is without cores or PCIe."""
        if np.any(self.server_cpu_milli <= 0) or np.any(self.server_pcie_mbs <= 0):
            raise PhysicsError("host: a server has no cores or no PCIe; each needs more than 0")


class NoHost:
    """Cores and PCIe are never scarce."""

    def tables(self, catalogue: Catalogue, topology: Topology) -> HostTables | None:
        """None."""
        del catalogue, topology
        return None


class SharedHost:
    """All workers on a server share its cores and its PCIe."""

    assumed = "jobs share cores and PCIe"

    def __init__(self, *, cores_per_gpu: float, pcie_gbs_per_gpu: float) -> None:
        """What a server has for each of its GPUs, above 0; cores where the topology counts none."""
        given = {"cores_per_gpu": cores_per_gpu, "pcie_gbs_per_gpu": pcie_gbs_per_gpu}
        check_numbers("host", "above 0", PhysicsError, **given)
        self._milli_per_gpu = round(cores_per_gpu * 1000)
        self._mbs_per_gpu = round(pcie_gbs_per_gpu * 1000)

    def tables(self, catalogue: Catalogue, topology: Topology) -> HostTables | None:
        """Tables over the topology's servers; PhysicsError for profiles that state no needs."""
        if catalogue.host is None:
            raise PhysicsError(
                f"host=shared needs profiles that state their needs of the host; those of source "
                f"{catalogue.source!r} do not; use profiles=shipped or profiles=measured"
            )
        gpus, counted = topology.gpus_per_server.astype(np.int64), topology.server_cpu_milli
        return HostTables(
            needs=catalogue.host,
            server_cpu_milli=gpus * self._milli_per_gpu if counted is None else counted,
            server_pcie_mbs=gpus * self._mbs_per_gpu,
        )
