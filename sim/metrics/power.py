"""Watts of GPUs by type, and the energy of a run."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray
from sim.metrics.gpu_changes import GpuChanges, down_changes, gpu_changes
from sim.metrics.over_time import gpus_over_time, span_s
from sim.run import Run

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Watts:
    """Power of one GPU."""

    idle: float  # on, without a tenant
    busy: float  # with at least one tenant


# busy: the board power limit of the vendor's data sheet, so an upper bound of what training draws.
# idle: what the card's own sensor reports without work, to about 5 W.
# Both leave out hosts, switches and cooling.
WATTS = {
    "k80": Watts(28, 150),  # one of the two GPUs of a 300 W board
    "m40": Watts(16, 250),
    "p4": Watts(7, 75),
    "p40": Watts(10, 250),
    "p100": Watts(28, 250),  # PCIe
    "v100": Watts(40, 300),  # SXM2
    "v100m16": Watts(40, 300),
    "v100m32": Watts(40, 300),
    "t4": Watts(10, 70),
    "rtx2080ti": Watts(15, 250),
    "rtx3090": Watts(25, 350),
    "a10": Watts(15, 150),
    "a40": Watts(25, 300),
    "a100": Watts(55, 400),  # SXM4
    "h100": Watts(70, 700),  # SXM5
    "h200": Watts(75, 700),  # SXM
}


def energy_metrics(run: Run) -> dict[str, float]:
    """`energy_kwh` of all GPUs over the span.

    A GPU of a server that is down draws nothing. NaN where the power of a GPU type that the
    cluster has is not known.
    """
    names = [name.lower().replace("-", "").replace(" ", "") for name in run.topology.gpu_types]
    gpu_type = run.topology.server_gpu_type[run.topology.gpu_server]  # (G,)
    used = np.unique(gpu_type).tolist()
    if any(names[kind] not in WATTS for kind in used):
        return {"energy_kwh": float("nan")}
    busy, down = gpu_changes(run.log), down_changes(run.log)
    joules = sum(_joules(run, busy, down, gpu_type == kind, WATTS[names[kind]]) for kind in used)
    return {"energy_kwh": joules / JOULES_PER_KWH}


def _joules(
    run: Run, busy: GpuChanges, down: GpuChanges, of_type: BoolArray, watts: Watts
) -> float:
    """Energy of the GPUs of one type, `of_type` (G,)."""
    start_s, end_s = span_s(run)
    busy_gpu_s, down_gpu_s = (
        gpus_over_time(_only(changes, of_type), tenants=1).mean(start_s, end_s) * (end_s - start_s)
        for changes in (busy, down)
    )
    total_gpu_s = float(np.count_nonzero(of_type)) * (end_s - start_s)
    idle_gpu_s = total_gpu_s - busy_gpu_s - down_gpu_s
    return watts.busy * busy_gpu_s + watts.idle * idle_gpu_s


def _only(changes: GpuChanges, of_type: BoolArray) -> GpuChanges:
    chosen = of_type[changes.gpu]
    return GpuChanges(*(getattr(changes, name)[chosen] for name in vars(changes)))
