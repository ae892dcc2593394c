"""What planned orders change on the desk."""

from sim.jit import kernel
from sim.linear.plan import Plan
from sim.scoring.desk import Desk
from sim.scoring.laying import forget_cost, measure_room


@kernel
def book_start(plan: Plan, at: int, m: int) -> None:
    """Order a start of waiting row `at` on `seats`, of the servers `used` by the placement."""
    orders, desk = plan.orders[0], plan.desk
    job = desk.waiting[at].job
    row = desk.job[job]
    plan.start_job[orders.num_starts] = job
    plan.start_first[orders.num_starts + 1] = orders.num_gpus + row.gang
    for i in range(row.gang):
        gpu = desk.seats[i]
        plan.start_gpus[orders.num_gpus + i] = gpu
        seat = desk.gpu[gpu]
        desk.tenant[gpu, seat.tenants] = job
        seat.tenants += 1
        seat.milli += row.gpu_milli
        forget_cost(desk, gpu)
        where = desk.server[seat.server]
        where.cpu_free_milli -= row.cpu_milli
        where.memory_free_mib -= row.memory_mib
    orders.num_gpus += row.gang
    orders.num_starts += 1
    desk.waiting[at].started = 1
    part = desk.partition[m]
    part.running += 1
    part.waiting -= row.gang
    part.jobs_waiting -= 1
    _book_links(desk)
    measure_room(desk, m)


@kernel
def _book_links(desk: Desk) -> None:
    """The job now loads the NICs of its servers and the uplinks of its racks."""
    game = desk.game[0]
    if game.num_used < 2:  # noqa: PLR2004 - one server has no one to talk to
        return
    game.stamp += 1
    racks = 0
    for i in range(game.num_used):
        where = desk.server[desk.used[i]]
        where.nic_jobs += 1
        racks += desk.rack[where.rack].stamp != game.stamp
        desk.rack[where.rack].stamp = game.stamp
    if racks < 2:  # noqa: PLR2004
        return
    game.stamp += 1
    for i in range(game.num_used):
        rack = desk.rack[desk.server[desk.used[i]].rack]
        if rack.stamp != game.stamp:
            rack.uplink_jobs += 1
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
