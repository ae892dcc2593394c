"""Which GPUs a job may share: the rule of `sim.occupancy.Occupancy.shared`."""

from sim.compiled.layout import OFFER, Memory
from sim.compiled.room import set_usable
from sim.jit import kernel
from sim.physics.slowing import WHOLE, excess_by


@kernel
def _may_join(memory: Memory, gpu: int, kind: int, profile: int) -> bool:
    """Whether all tenants of `gpu` fit beside the job and are together fast enough.

    Pairs say it: where three and more may share, nobody here asks for a speed (`eligible`).
    """
    for k in range(memory.seat[gpu].load):
        if not memory.feasible[kind, profile, memory.waiter[memory.who[gpu, k]].profile]:
            return False
    if memory.game[0].least_speed <= 0.0:
        return True
    own, speed = 1.0, 0.0
    for k in range(memory.seat[gpu].load):
        other = memory.waiter[memory.who[gpu, k]].profile
        own += excess_by(memory.slowdown[kind, profile, other], WHOLE)
        speed += 1.0 / (1.0 + excess_by(memory.slowdown[kind, other, profile], WHOLE))
    return bool(speed + 1.0 / own > memory.game[0].least_speed)


@kernel
def offer_shared(memory: Memory, profile: int) -> None:
    """Fill the room OFFER, and `offered` of every seat, for a job of `profile`."""
    most = memory.who.shape[1]
    for server in range(len(memory.plot)):
        row = memory.plot[server]
        count = 0
        if row.closed == 0:
            for gpu in range(row.first_gpu, row.last_gpu):
                load = memory.seat[gpu].load
                fits = load == 0
                if 0 < load < most:
                    fits = _may_join(memory, gpu, row.type, profile)
                memory.seat[gpu].offered = 1 if fits else 0
                count += 1 if fits else 0
        set_usable(memory, OFFER, server, count)
