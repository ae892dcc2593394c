"""What planned orders change on the desk: a start seats a job, a suspension is its inverse."""

from sim.jit import kernel
from sim.linear.plan import Plan
from sim.scoring.desk import Desk
from sim.scoring.room import left_s
from sim.scoring.seating import sit_down, stand_up


@kernel
def book_start(plan: Plan, at: int, m: int) -> None:
    """Order a start of waiting row `at` on `seats`, of the servers `used` by the placement."""
    orders, desk = plan.orders[0], plan.desk
    job = desk.waiting[at].job
    gang = desk.job[job].gang
    plan.start_job[orders.num_starts] = job
    plan.start_first[orders.num_starts + 1] = orders.num_gpus + gang
    for i in range(gang):
        plan.start_gpus[orders.num_gpus + i] = desk.seats[i]
    orders.num_gpus += gang
    orders.num_starts += 1
    desk.waiting[at].started = 1
    part = desk.partition[m]
    part.running += 1
    part.waiting -= gang
    part.jobs_waiting -= 1
    sit_down(desk, job, m)


@kernel
def book_suspension(plan: Plan, job: int) -> None:
    """Order that a running job is suspended: it waits in its partition, which decides anew."""
    orders, desk, told = plan.orders[0], plan.desk, plan.desk.state.job[job]
    plan.preempt[orders.num_preempts] = job
    orders.num_preempts += 1
    m, gang = told.partition, desk.job[job].gang
    part = desk.partition[m]
    part.running -= 1
    part.waiting += gang
    part.jobs_waiting += 1
    part.due = 1
    _wait_again(desk, job, m)
    stand_up(desk, job)


@kernel
def _wait_again(desk: Desk, job: int, m: int) -> None:
    """A row for a suspended job, behind the others whatever its age: for this decision only."""
    row = desk.waiting[desk.game[0].num_waiting]
    desk.game[0].num_waiting += 1
    row.job = job
    row.partition = m
    row.moved = 0
    row.started = 0
    row.last = 0
    row.key = left_s(desk, job) if desk.game[0].use_durations != 0 else desk.job[job].gang


@kernel
def book_forward(plan: Plan, at: int, target: int) -> None:
    """Order that waiting row `at` is handed to `target`, which has to decide anew."""
    orders, desk = plan.orders[0], plan.desk
    row = desk.waiting[at]
    gang = desk.job[row.job].gang
    plan.forward[orders.num_forwards, 0] = row.job
    plan.forward[orders.num_forwards, 1] = target
    orders.num_forwards += 1
    home, there = desk.partition[row.partition], desk.partition[target]
    home.wanted -= gang
    home.waiting -= gang
    home.jobs_waiting -= 1
    there.wanted += gang
    there.waiting += gang
    there.jobs_waiting += 1
    there.due = 1
    row.partition = target
    row.moved = 1
