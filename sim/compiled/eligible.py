"""Whether a run can be left to compiled code, and its plan if so."""

import numpy as np

from sim.compiled.plan import BEST_FIT, CONSOLIDATED, NEVER, SJF, TETRIS, Plan
from sim.jobs import JobTable
from sim.kernel.layout import State
from sim.physics.physics import Physics
from sim.placing.compactness import fills_largest
from sim.protocols import Scheduler
from sim.queueing import QueueScheduler
from sim.traits import WHOLE_GPU_MILLI

PAIR = 2  # tenants


def plan_of(
    scheduler: Scheduler, state: State, jobs: JobTable, physics: Physics, belief: Physics
) -> Plan | None:
    """The scheduler's plan; None where Python has to decide.

    That is where the scheduler has no compiled form, and where the cluster or the jobs have
    something that the compiled loop does not know: partitions, placers that need predictions,
    demands for parts of GPUs, cores, memory or GPU types, predictions that are missing, gangs that
    cannot fill the largest servers, and sharing that is wrong or more than pairwise selective
    (whose offers may grow while a decision is made).
    """
    if not isinstance(scheduler, QueueScheduler):
        return None
    plan = scheduler.compiled()
    world = state.world[0]
    if plan is None or plan.placer >= BEST_FIT or plan.order == TETRIS:
        return None
    if world["num_partitions"] > 1 or world["demands_matter"]:
        return None
    if plan.order == SJF and np.isnan(jobs.estimate_s).any():
        return None
    waits_for_ever = plan.placer == CONSOLIDATED and not _fill_largest(state, jobs)
    misled = plan.sharing != NEVER and not _knows_what_fits(plan, state, physics, belief)
    return None if waits_for_ever or misled else plan


def _fill_largest(state: State, jobs: JobTable) -> bool:
    """Also while servers are away: those left of one size do, or are too few for the gang."""
    sizes = state.server["last_gpu"] - state.server["first_gpu"]
    if len(state.outages) > 0 and sizes.min() < sizes.max():
        return False
    return all(fills_largest(sizes, gang) for gang in np.unique(jobs.num_gpus).tolist())


def _knows_what_fits(plan: Plan, state: State, physics: Physics, belief: Physics) -> bool:
    tenants = state.tenant.shape[1]
    limit = state.world[0]["gpu_limit_milli"]
    same = np.array_equal(physics.pairs.feasible, belief.pairs.feasible)
    offers_shrink = plan.least_speed <= 0 or tenants <= PAIR
    return bool(same and offers_shrink and limit >= tenants * WHOLE_GPU_MILLI)
