"""The profile catalogue: measured or fitted training profiles that jobs are tied to."""

from dataclasses import dataclass

from sim.arrays import BoolArray, FloatArray
from sim.physics.host_needs import HostNeeds


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
