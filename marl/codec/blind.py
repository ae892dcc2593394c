"""Agents that may send jobs to other partitions but know nothing of them: an ablation."""

from marl.codec.observe import Canvas
from marl.codec.rows import hide_others
from sim.jit import kernel

# What a forward's row says of the target: fits there now, load, shorter work ahead, waits, starts,
# and what the job would do there.
OF_OTHERS = (1, 2, 3, 6, 7, 8, 9, 10)


@kernel
def hide_peers(own: int, seen: Canvas) -> None:
    """Leave of other partitions that jobs may be sent there, and no more."""
    hide_others(own, seen.peers, seen.context)
    for column in OF_OTHERS:
        seen.forwards[:, :, column] = 0.0
