"""Agents that may send jobs to other partitions but know nothing of them: an ablation."""

from marl.codec.observe import Canvas
from sim.scoring.rows import hide_others
from sim.scoring.table import FORWARD_OF_OTHERS


def hide_peers(own: int, seen: Canvas) -> None:
    """Leave of other partitions that jobs may be sent there, and no more."""
    hide_others(own, seen.peers, seen.context)
    seen.forwards[:, :, list(FORWARD_OF_OTHERS)] = 0.0
