"""Jobs that sit down on the desk or stand up, ahead of what the run itself does."""

from sim.jit import kernel
from sim.scoring.desk import Desk
from sim.scoring.filling import occupy_seats
from sim.scoring.laying import forget_cost, measure_room


@kernel
def sit_down(desk: Desk, job: int, m: int) -> None:
    """Let a job have the GPUs in `seats`, of partition `m` and of the servers `used`."""
    for i in range(desk.job[job].gang):
        gpu = desk.seats[i]
        seat = desk.gpu[gpu]
        desk.tenant[gpu, seat.tenants] = job
        seat.tenants += 1
        _weigh(desk, job, gpu, 1)
    _load_links(desk, 1)
    desk.touched[job] = desk.game[0].decision
    measure_room(desk, m)


@kernel
def stand_up(desk: Desk, job: int) -> None:
    """The inverse, for a job that runs: its GPUs are free; others keep their order on them."""
    told, tenant = desk.state.job[job], desk.tenant
    seats = desk.state.placed[told.first : told.first + told.held]
    for i in range(len(seats)):
        gpu, stay = seats[i], 0
        for k in range(desk.gpu[gpu].tenants):
            if tenant[gpu, k] != job:
                tenant[gpu, stay] = tenant[gpu, k]
                stay += 1
        desk.gpu[gpu].tenants = stay
        _weigh(desk, job, gpu, -1)
    occupy_seats(desk, seats)
    _load_links(desk, -1)
    desk.touched[job] = desk.game[0].decision
    measure_room(desk, told.partition)


@kernel
def _weigh(desk: Desk, job: int, gpu: int, sign: int) -> None:
    """A worker's part of its GPU, cores and memory, taken (1) or given back (-1)."""
    seat, row = desk.gpu[gpu], desk.job[job]
    where = desk.server[seat.server]
    seat.milli += sign * row.gpu_milli
    where.cpu_free_milli -= sign * row.cpu_milli
    where.memory_free_mib -= sign * row.memory_mib
    forget_cost(desk, gpu)


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
