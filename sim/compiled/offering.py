"""Which GPUs a job may share: the rule of `sim.occupancy.Occupancy.shared`."""

from sim.compiled.layout import OFFER, Memory
from sim.compiled.room import set_usable
from sim.jit import inlined, kernel


@inlined
def _may_join(memory: Memory, gpu: int, kind: int, profile: int) -> bool:
    """Whether all tenants of `gpu` fit beside the job and are together fast enough."""
    own, speed = 1.0, 0.0
    for k in range(memory.seat[gpu].load):
        other = memory.waiter[memory.who[gpu, k]].profile
        if not memory.feasible[kind, profile, other]:
            return False
        own += memory.slowdown[kind, profile, other] - 1.0
        speed += 1.0 / memory.slowdown[kind, other, profile]
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
