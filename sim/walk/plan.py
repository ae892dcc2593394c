"""Which schedulers can be walked, and how."""

from typing import NamedTuple

from sim.kernel.layout import State
from sim.partitioned import PartitionedScheduler
from sim.protocols import Scheduler
from sim.queueing import QueueScheduler, own_code
from sim.traits import WHOLE_GPU_MILLI


class Rule(NamedTuple):
    """One composition of placer and sharing rule, in codes of `sim.compiled.plan`."""

    placer: int
    sharing: int
    least_speed: float  # combined speed that the tenants of a shared GPU must exceed
    most_slowdown: float  # of `compact_wait`; 1 for the others
    skip_blocked: bool
    steals: bool


def rule_of(scheduler: Scheduler, state: State) -> Rule | None:
    """How to walk for `scheduler`; None where Python has to decide.

    That is where it has rules of its own (a class says with `order_is_by_job` that it has none),
    where a placer has no code, and where servers go away or jobs ask for more than empty GPUs.
    """
    steals = isinstance(scheduler, PartitionedScheduler) and scheduler.forwarding.steals
    child = scheduler.child if isinstance(scheduler, PartitionedScheduler) else scheduler
    if not isinstance(child, QueueScheduler) or not type(child).__dict__.get("order_is_by_job"):
        return None
    placer, sharing = own_code(child.placer), own_code(child.sharing)
    if placer is None or sharing is None or not _is_plain(state):
        return None
    if child is scheduler and state.world[0]["num_partitions"] > 1:
        return None
    return Rule(
        placer=placer,
        sharing=sharing,
        least_speed=float(getattr(child.sharing, "least_speed", 0.0)),
        most_slowdown=float(getattr(child.placer, "most_slowdown", 1.0)),
        skip_blocked=bool(child.skip_blocked),
        steals=steals,
    )


def _is_plain(state: State) -> bool:
    """Whether empty GPUs, and tenants of the others, are all that placement has to look at."""
    world = state.world[0]
    if world["demands_matter"] or len(state.outages) > 0:
        return False
    return bool(world["gpu_limit_milli"] >= state.tenant.shape[1] * WHOLE_GPU_MILLI)
