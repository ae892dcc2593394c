"""A trace as read: what the file says of each job, before a cluster or a policy is chosen."""

from dataclasses import dataclass

from sim.arrays import FloatArray, IntArray, TextArray
from sim.traits import Attempts, Precedence


@dataclass(frozen=True)
class Trace:
    """J jobs sorted by submission (stable). A column that is None is not in the file."""

    name: str
    job_id: TextArray  # (J,) str
    submit_s: FloatArray  # (J,) seconds from any origin, ascending
    num_gpus: IntArray  # (J,) >= 1
    duration_s: FloatArray  # (J,) >= 0
    user: TextArray  # (J,) str, "" where unknown
    vc: TextArray  # (J,) virtual cluster, "" where unknown
    group: TextArray | None = None  # (J,) jobs of one group repeat each other; "" where unknown
    model: TextArray | None = None  # (J,) what the job trains, in the file's words; "" if unknown
    priority: IntArray | None = None  # (J,) larger is more important
    deadline_s: FloatArray | None = None  # (J,) seconds after submission; inf where there is none
    cpu_milli: IntArray | None = None  # (J,) of each worker (one GPU of the gang), as is memory
    memory_mib: IntArray | None = None  # (J,)
    gpu_milli: IntArray | None = None  # (J,) thousandths of a GPU that each worker takes
    gpu_types: TextArray | None = None  # (J,) allowed GPU types, "P100|T4"; "" any
    least_gpus: IntArray | None = None  # (J,) elastic jobs: 1 <= least_gpus <= num_gpus
    most_gpus: IntArray | None = None  # (J,) >= num_gpus
    outcome: IntArray | None = None  # (J,) COMPLETED, FAILED or CANCELLED of sim.traits
    withdraw_s: FloatArray | None = None  # (J,) given up so long after submission; inf: never
    limit_s: FloatArray | None = None  # (J,) run time that its user asked for; inf: without a limit
    waited_s: FloatArray | None = None  # (J,) from submission to start as it was; NaN: never began
    line: IntArray | None = None  # (J,) of the file, for messages
    file: str | None = None  # that was read, for messages
    attempts: Attempts | None = None  # where in its work a job failed and started again
    precedence: Precedence | None = None  # rows of this trace that a job waits for

    def __len__(self) -> int:
        """Number of jobs J."""
        return len(self.job_id)
