"""What planned orders change on the desk: a start seats a job, a suspension is its inverse."""

from sim.jit import kernel
from sim.linear.plan import Plan
from sim.scoring.desk import Desk
from sim.scoring.filling import occupy_seats
from sim.scoring.laying import forget_cost, measure_room
from sim.scoring.room import left_s


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
        _sit_down(desk, job, desk.seats[i])
    orders.num_gpus += gang
    orders.num_starts += 1
    desk.waiting[at].started = 1
    desk.touched[job] = desk.game[0].decision
    part = desk.partition[m]
    part.running += 1
    part.waiting -= gang
    part.jobs_waiting -= 1
    _load_links(desk, 1)
    measure_room(desk, m)


@kernel
def book_suspension(plan: Plan, job: int) -> None:
    """Order that a running job is suspended: it waits in its partition, which decides anew."""
    orders, desk, told = plan.orders[0], plan.desk, plan.desk.state.job[job]
    plan.preempt[orders.num_preempts] = job
    orders.num_preempts += 1
    seats = desk.state.placed[told.first : told.first + told.held]
    for i in range(len(seats)):
        _stand_up(desk, job, seats[i])
    desk.touched[job] = desk.game[0].decision
    m, gang = told.partition, desk.job[job].gang
    part = desk.partition[m]
    part.running -= 1
    part.waiting += gang
    part.jobs_waiting += 1
    part.due = 1
    _wait_again(desk, job, m)
    occupy_seats(desk, seats)
    _load_links(desk, -1)
    measure_room(desk, m)


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
def _sit_down(desk: Desk, job: int, gpu: int) -> None:
    seat, row = desk.gpu[gpu], desk.job[job]
    desk.tenant[gpu, seat.tenants] = job
    seat.tenants += 1
    seat.milli += row.gpu_milli
    _use_host(desk, job, seat.server, 1)
    forget_cost(desk, gpu)


@kernel
def _stand_up(desk: Desk, job: int, gpu: int) -> None:
    """The inverse; those who sat down later keep their order."""
    seat, row, tenant = desk.gpu[gpu], desk.job[job], desk.tenant
    stay = 0
    for k in range(seat.tenants):
        if tenant[gpu, k] != job:
            tenant[gpu, stay] = tenant[gpu, k]
            stay += 1
    seat.tenants = stay
    seat.milli -= row.gpu_milli
    _use_host(desk, job, seat.server, -1)
    forget_cost(desk, gpu)


@kernel
def _use_host(desk: Desk, job: int, server: int, sign: int) -> None:
    """A worker's cores and memory, taken (1) or given back (-1)."""
    where, row = desk.server[server], desk.job[job]
    where.cpu_free_milli -= sign * row.cpu_milli
    where.memory_free_mib -= sign * row.memory_mib


@kernel
def _load_links(desk: Desk, sign: int) -> None:
    """The job of the placement at hand loads the NICs of its servers and its racks' uplinks.

    Or (-1) does not any more.
    """
    game = desk.game[0]
    if game.num_used < 2:  # noqa: PLR2004 - one server has no one to talk to
        return
    game.stamp += 1
    racks = 0
    for i in range(game.num_used):
        where = desk.server[desk.used[i]]
        where.nic_jobs += sign
        racks += desk.rack[where.rack].stamp != game.stamp
        desk.rack[where.rack].stamp = game.stamp
    if racks < 2:  # noqa: PLR2004
        return
    game.stamp += 1
    for i in range(game.num_used):
        rack = desk.rack[desk.server[desk.used[i]].rack]
        if rack.stamp != game.stamp:
            rack.uplink_jobs += sign
        rack.stamp = game.stamp


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
