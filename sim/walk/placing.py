"""Placing one gang under a rule."""

from sim.compiled.plan import ALIKE, NEVER
from sim.jit import array_kernel
from sim.walk.choosing import choose
from sim.walk.desk import Desk
from sim.walk.offering import offer_empty, offer_shared
from sim.walk.plan import Rule


@array_kernel
def place(desk: Desk, rule: Rule, partition: int, gang: int, profile: int, at: int) -> bool:
    """Write the GPUs of a gang under the sharing rule; False if it has to wait."""
    alone = rule.sharing != ALIKE and offer_empty(desk, partition) >= gang
    if alone and choose(desk, rule, partition, gang, profile, at):
        return True
    if rule.sharing == NEVER or offer_shared(desk, partition, profile, rule.least_speed) < gang:
        return False
    return choose(desk, rule, partition, gang, profile, at)
