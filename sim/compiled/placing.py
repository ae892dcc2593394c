"""A sharing rule and a placer together: GPUs for one job, or none."""

from sim.compiled.choosing import choose
from sim.compiled.fitting import fits
from sim.compiled.layout import FREE, OFFER, Memory
from sim.compiled.offering import offer_shared
from sim.compiled.plan import ALIKE, NEVER
from sim.jit import kernel


@kernel
def place(memory: Memory, job: int, at: int) -> bool:
    """Write the GPUs of `job` to memory.gpus from `at` on; False if it has to wait."""
    game, waiter = memory.game[0], memory.waiter[job]
    gang = memory.kind[waiter.kind].gang
    if game.sharing != ALIKE and fits(memory, FREE, gang):
        choose(memory, FREE, gang, at)
        return True
    if game.sharing == NEVER:
        return False
    offer_shared(memory, waiter.profile)
    if not fits(memory, OFFER, gang):
        return False
    choose(memory, OFFER, gang, at)
    return True
