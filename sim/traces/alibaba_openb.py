"""Reads the pod lists of Alibaba's GPU-sharing cluster, 2023 (Weng et al., ATC 2023: "openb")."""

from collections.abc import Mapping

import numpy as np

from sim.arrays import objects
from sim.traces.column_reader import ColumnReader
from sim.traces.row_rules import BLANKS
from sim.traces.text_table import GivenColumns, checked_columns, read_text_table
from sim.traces.trace import Notes, Trace
from sim.traits import CANCELLED, COMPLETED, FAILED, NEVER_S, WHOLE_GPU_MILLI

REQUIRED = ("name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time",
            "scheduled_time")  # fmt: skip
OPTIONAL = ("cpu_milli", "memory_mib", "gpu_spec", "qos")
PENDING = 3
PHASES = {"Succeeded": COMPLETED, "Failed": FAILED, "Running": COMPLETED, "Pending": PENDING}


class AlibabaOpenb:
    """One row a pod; pods without GPUs are left out.

    Run time is deletion - scheduling. A pod that was never scheduled (phase Pending) was given up
    at its deletion. A pod in phase Running was cut off when the log was taken; it counts as
    completed there. CPU and memory are spread evenly over the pod's GPUs.
    """

    def __init__(self, *, qos_priority: Mapping[str, int]) -> None:
        """Keep the priority of each class of service."""
        self._qos_priority = qos_priority

    def read(
        self, *, path: str, columns: GivenColumns, name: str, strict: bool
    ) -> tuple[Trace, Notes]:
        """The trace of a file; arguments and errors as `TraceReader` says."""
        wanted = checked_columns(columns, required=REQUIRED, optional=OPTIONAL)
        reader = ColumnReader(read_text_table(path, wanted, strict=strict))
        gpus = reader.gangs("num_gpu", least=0)
        milli = reader.counts("gpu_milli", blank=WHOLE_GPU_MILLI, most=WHOLE_GPU_MILLI)
        reader.flag("gpu_milli", (gpus > 0) & (milli == 0), "is no share of a GPU from 1 to 1000")
        phase = reader.choices("pod_phase", PHASES)
        created_s, deleted_s = reader.times("creation_time"), reader.times("deletion_time")
        scheduled_s = reader.times("scheduled_time", blank_s=np.nan)
        pending = phase == PENDING
        began_s = np.where(pending, deleted_s, scheduled_s)
        reader.flag("scheduled_time", np.isnan(began_s), "is empty, but the pod is not Pending")
        reader.flag("scheduled_time", scheduled_s < created_s, "is before creation_time")
        reader.flag("deletion_time", deleted_s < np.fmax(created_s, began_s),
                   "is before the pod was created or scheduled")  # fmt: skip
        reader.leave_out(gpus == 0, "use no GPU")
        workers = np.maximum(gpus, 1)
        trace = Trace(
            name=name,
            job_id=reader.names("name"),
            submit_s=created_s,
            num_gpus=workers,
            duration_s=np.nan_to_num(deleted_s - began_s),
            user=reader.texts("user"),
            vc=reader.texts("vc"),
            priority=reader.choices("qos", self._qos_priority) if reader.has("qos") else None,
            cpu_milli=reader.counts("cpu_milli", blank=0) // workers,
            memory_mib=reader.counts("memory_mib", blank=0) // workers,
            gpu_milli=np.where(workers > 1, WHOLE_GPU_MILLI, np.maximum(milli, 1)),
            gpu_types=objects(_any(reader.raw("gpu_spec"))),
            outcome=np.where(pending, CANCELLED, phase),
            withdraw_s=np.where(pending, deleted_s - created_s, NEVER_S),
            waited_s=np.where(pending, np.nan, scheduled_s - created_s),
        )
        return reader.finish(trace, strict=strict)


def _any(specs: list[str]) -> list[str]:
    """Allowed GPU types; "" where a pod names none."""
    return ["" if spec.lower() in BLANKS else spec for spec in specs]
