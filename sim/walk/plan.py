"""Which schedulers can be walked, and how."""

from typing import NamedTuple

from sim.compiled.plan import (
    CONSOLIDATED,
    FIFO,
    NEVER,
    OWN_ONLY,
    SJF,
    SMALLEST_GANG,
    SRTF,
    TETRIS,
)
from sim.kernel.layout import State
from sim.partitioned import PartitionedScheduler
from sim.protocols import Scheduler
from sim.queueing import QueueScheduler, own_code
from sim.traits import WHOLE_GPU_MILLI

ORDERS = (FIFO, SJF, SMALLEST_GANG, SRTF, TETRIS)


class Rule(NamedTuple):
    """One composition, in codes of `sim.compiled.plan`."""

    order: int  # of ORDERS; SRTF preempts
    forwarding: int
    placer: int
    sharing: int
    least_speed: float  # combined speed that the tenants of a shared GPU must exceed
    most_slowdown: float  # of `compact_wait`; 1 for the others
    skip_blocked: bool


def rule_of(scheduler: Scheduler, state: State) -> Rule | None:
    """How to walk for `scheduler`; None where Python has to decide.

    That is where a part of it has rules of its own (and so no code), where it preempts (but for
    SRTF with gangs that wait for the fewest servers and share nothing), and where servers go away
    or jobs ask for more than empty GPUs.
    """
    child: Scheduler = scheduler
    forwarding: int | None = OWN_ONLY
    if isinstance(scheduler, PartitionedScheduler):
        child, forwarding = scheduler.child, own_code(scheduler.forwarding)
    if not isinstance(child, QueueScheduler) or not _is_plain(state):
        return None
    order, placer, sharing = own_code(child), own_code(child.placer), own_code(child.sharing)
    if order not in ORDERS or placer is None or sharing is None or forwarding is None:
        return None
    if order == SRTF and (placer, sharing) != (CONSOLIDATED, NEVER):
        return None
    if child is scheduler and state.world[0]["num_partitions"] > 1:
        return None
    return Rule(
        order=order,
        forwarding=forwarding,
        placer=placer,
        sharing=sharing,
        least_speed=float(getattr(child.sharing, "least_speed", 0.0)),
        most_slowdown=float(getattr(child.placer, "most_slowdown", 1.0)),
        skip_blocked=bool(child.skip_blocked),
    )


def _is_plain(state: State) -> bool:
    """Whether empty GPUs, and tenants of the others, are all that placement has to look at."""
    world = state.world[0]
    if world["demands_matter"] or len(state.outages) > 0:
        return False
    return bool(world["gpu_limit_milli"] >= state.tenant.shape[1] * WHOLE_GPU_MILLI)
