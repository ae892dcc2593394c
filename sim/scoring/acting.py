"""Orders as they are carried out: on the state itself, at once; the scratch's counts go along."""

import numpy as np

from sim.jit import array_kernel, kernel
from sim.kernel.apply import LEGAL, check_gpus, hand_over, preempt, start_on
from sim.kernel.log import PREEMPT, sort_orders
from sim.kernel.rates import rerate
from sim.scoring.plan import Plan
from sim.scoring.refresh import measure_room, refresh, write_waiting


@kernel
def open_decision(plan: Plan) -> None:
    """Lay out the scratch; remember where the orders begin in the log."""
    orders, world = plan.orders[0], plan.scratch.state.world[0]
    orders.first_row, orders.first_gpu = world.num_logged, world.num_logged_gpus
    orders.mixed, orders.verdict = 0, LEGAL
    refresh(plan.scratch)
    plan.scratch.game[0].decision += 1


@array_kernel
def close_decision(plan: Plan) -> None:
    """The log in its order, new speeds, and when to be asked again."""
    orders, state = plan.orders[0], plan.scratch.state
    if orders.mixed != 0:
        sort_orders(state, orders.first_row, orders.first_gpu)
        at = orders.first_row
        while at < state.world[0].num_logged and state.log[at].kind == PREEMPT:
            row = state.job[state.log[at].job]
            row.seen_progress_s = row.progress_s
            at += 1
    rerate(state)
    state.world[0].wake_s = orders.wake_s


@kernel
def start(plan: Plan, at: int, m: int) -> None:
    """Start waiting row `at`, of partition `m`, on `seats`; what is refused ends the decision."""
    orders, scratch, state = plan.orders[0], plan.scratch, plan.scratch.state
    job, part = scratch.waiting[at].job, scratch.partition[m]
    gang = scratch.job[job].gang
    verdict, gpu = check_gpus(state, job, scratch.seats, gang)
    if verdict != LEGAL:
        orders.verdict, orders.job, orders.what = verdict, job, gpu
        return
    start_on(state, job, scratch.seats, gang, np.inf)
    part.running += 1
    part.waiting -= gang
    part.jobs_waiting -= 1
    scratch.touched[job] = scratch.game[0].decision
    measure_room(scratch, m)


@kernel
def suspend(plan: Plan, job: int) -> None:
    """Suspend a running job: it waits in its partition, which decides anew.

    It waits behind the others, whatever its age. What it loses is seen from the next decision on:
    one decision weighs a job by what it had left as that began.
    """
    orders, scratch, row = plan.orders[0], plan.scratch, plan.scratch.state.job[job]
    seen_s = row.seen_progress_s
    preempt(scratch.state, job)
    row.seen_progress_s = seen_s
    orders.mixed = 1
    part, gang = scratch.partition[row.partition], scratch.job[job].gang
    part.running -= 1
    part.waiting += gang
    part.jobs_waiting += 1
    part.due = 1
    write_waiting(scratch, scratch.game[0].num_waiting, job)
    scratch.game[0].num_waiting += 1
    scratch.touched[job] = scratch.game[0].decision
    measure_room(scratch, row.partition)


@kernel
def forward(plan: Plan, at: int, target: int) -> None:
    """Hand waiting row `at` to `target`, which has to decide anew."""
    scratch, job = plan.scratch, plan.scratch.waiting[at].job
    gang = scratch.job[job].gang
    home, there = scratch.partition[scratch.state.job[job].partition], scratch.partition[target]
    hand_over(scratch.state, job, target)
    scratch.waiting[at].moved = 1
    plan.orders[0].mixed = 1
    home.wanted -= gang
    home.waiting -= gang
    home.jobs_waiting -= 1
    there.wanted += gang
    there.waiting += gang
    there.jobs_waiting += 1
    there.due = 1
