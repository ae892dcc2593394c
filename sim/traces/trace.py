"""A trace as read: what the file says of each job, before a cluster or a policy is chosen."""

from dataclasses import dataclass

from sim.arrays import FloatArray, IntArray, TextArray


@dataclass(frozen=True)
class Trace:
    """J jobs sorted by submission (stable)."""

    name: str
    job_id: TextArray  # (J,) str
    submit_s: FloatArray  # (J,) seconds from any origin, ascending
    num_gpus: IntArray  # (J,) >= 1
    duration_s: FloatArray  # (J,) >= 0
    user: TextArray  # (J,) str, "" where unknown
    vc: TextArray  # (J,) virtual cluster, "" where unknown

    def __len__(self) -> int:
        """Number of jobs J."""
        return len(self.job_id)
