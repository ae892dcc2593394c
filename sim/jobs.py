"""The job table: what is known of every job before the run starts, as arrays."""

from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, TextArray
from sim.errors import TraceError
from sim.traits import Attempts, Demands, Elastic, Fates, Identity, Precedence, Urgency

COLUMNS = ("submit_s", "num_gpus", "duration_s", "estimate_s", "profile", "home", "measured")
TRAITS = ("demands", "elastic", "identity", "urgency", "fates")


@dataclass(frozen=True)
class JobTable:
    """J jobs sorted by submission (stable), ready to simulate.

    `duration_s` is the run time on the most compact exclusive placement on the trace's reference
    GPU type: it is also the job's work, counted in seconds at that speed. 0 is legal.
    """

    job_id: TextArray  # (J,) str, as in the trace
    submit_s: FloatArray  # (J,) ascending
    num_gpus: IntArray  # (J,) gang size, >= 1
    duration_s: FloatArray  # (J,) >= 0
    estimate_s: FloatArray  # (J,) predicted duration_s; NaN where there is no prediction
    profile: IntArray  # (J,) row of the profile catalogue
    home: IntArray  # (J,) partition at which the job arrives
    measured: BoolArray  # (J,) True where metrics count the job (warm-up and drain are False)
    # None: no job of the table has any of it.
    demands: Demands | None = None
    elastic: Elastic | None = None
    identity: Identity | None = None
    urgency: Urgency | None = None
    fates: Fates | None = None
    attempts: Attempts | None = None
    precedence: Precedence | None = None

    def __post_init__(self) -> None:
        """Check shapes and ranges; a reader reports the line, this reports the job."""
        for name in (*COLUMNS, *TRAITS):
            value = getattr(self, name)
            if value is not None and len(value) != len(self.job_id):
                raise TraceError(f"job table: column {name} has another length than job_id")
        if np.any(np.diff(self.submit_s) < 0):
            raise TraceError("job table: submit_s is not sorted; sort the rows by submission")
        self._check("num_gpus", self.num_gpus < 1, "a gang needs at least one GPU")
        finite = np.isfinite(self.duration_s)
        self._check(
            "duration_s", ~(finite & (self.duration_s >= 0)), "it must be 0 or more seconds"
        )
        self._check_traits()

    def _check_traits(self) -> None:
        """Ranges of the optional columns."""
        if self.elastic is not None:
            least, most = self.elastic.least_gpus, self.elastic.most_gpus
            self._refuse("least_gpus", least, (least < 1) | (least > self.num_gpus),
                         "it must be from 1 to num_gpus")  # fmt: skip
            self._refuse("most_gpus", most, most < self.num_gpus, "it must be at least num_gpus")
        if self.demands is not None:
            for name, low in {"gpu_milli": 1, "cpu_milli": 0, "memory_mib": 0}.items():
                value = getattr(self.demands, name)
                self._refuse(name, value, value < low, f"it must be at least {low}")
            mask = self.demands.type_mask
            self._refuse("type_mask", mask, mask == 0, "no GPU type would do")
        if self.fates is not None:
            after_s = self.fates.withdraw_s
            self._refuse("withdraw_s", after_s, ~(after_s >= 0), "it must be 0 or more seconds")

    def _check(self, column: str, bad: BoolArray, rule: str) -> None:
        self._refuse(column, getattr(self, column), bad, rule)

    def _refuse(
        self, column: str, values: FloatArray | IntArray, bad: BoolArray, rule: str
    ) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise TraceError(f"job {self.job_id[row]}: {column} is {values[row]}; {rule}")

    def __len__(self) -> int:
        """Number of jobs J."""
        return len(self.job_id)
