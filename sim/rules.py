"""What every run fixes beside jobs, cluster and physics."""

import math
from dataclasses import dataclass

from sim.errors import SimulationError


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Sharing, restarts, checkpoints, forwarding; what each means: docs/reference/semantics.md."""

    max_tenants: int  # jobs a GPU may hold
    gpu_oversubscription: float | None  # of a GPU's thousandths; None: as many as tenants
    restart_s: float  # GPUs are held this long without progress when a job starts again
    restart_s_per_gpu: float  # and this much longer for each GPU that it gets
    checkpoint_work_s: float | None  # work between periodic checkpoints; None: no periodic ones
    checkpoint_s: float  # a periodic checkpoint takes this long
    preempt_saves: bool  # a preempted job writes a checkpoint as it goes
    max_forwards: int

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            SimulationError: naming the key, the value and the rule.
        """
        over, every_s = self.gpu_oversubscription, self.checkpoint_work_s
        for key, good, rule in (
            ("max_tenants", self.max_tenants >= 1, "1 or more"),
            ("gpu_oversubscription", over is None or 1 <= over < math.inf, "null, or 1 or more"),
            ("restart_s", 0 <= self.restart_s < math.inf, "0 or more seconds"),
            ("restart_s_per_gpu", 0 <= self.restart_s_per_gpu < math.inf, "0 or more seconds"),
            ("checkpoint_work_s", every_s is None or 0 < every_s < math.inf, "null, or above 0"),
            ("checkpoint_s", 0 <= self.checkpoint_s < math.inf, "0 or more seconds"),
            ("max_forwards", self.max_forwards >= 0, "0 or more"),
        ):
            if not good:
                raise SimulationError(f"{key} is {getattr(self, key)}; it must be {rule}")
