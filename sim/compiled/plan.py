"""What a scheduler says of itself so that compiled code can stand in for it."""

from dataclasses import dataclass

# Orders. The values of Plan.order; `sim.walk` alone knows TETRIS.
FIFO, SJF, SMALLEST_GANG, SRTF, LAS, TETRIS = range(6)
# Placers. The values of Plan.placer; from BEST_FIT on `sim.walk` alone knows them.
FIRST_FIT, WORST_FIT, CONSOLIDATED, PACKED, LEAST_LOADED = range(5)
BEST_FIT, LEAST_INTERFERENCE, COMPACT_WAIT = range(5, 8)
# When GPUs with a tenant are offered. The values of Plan.sharing.
NEVER, IF_NOTHING_IS_EMPTY, ALIKE = range(3)
# Which partition takes a job. The values of `sim.walk.plan.Rule.forwarding`.
OWN_ONLY, TO_LEAST_LOADED, OWN_THEN_LEAST_LOADED, STEAL = range(4)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One composition of order, placer and sharing rule, in codes."""

    order: int
    preempts: bool  # waiting jobs push running ones of lower priority aside
    placer: int
    sharing: int
    least_speed: float  # combined speed that the tenants of a shared GPU must exceed
    skip_blocked: bool
    quantum_gpu_s: float  # LAS; NaN for the others
