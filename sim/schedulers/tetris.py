"""Tetris with GPUs as the one resource."""

import numpy as np

from sim.arrays import IntArray
from sim.codes import TETRIS
from sim.engine.composed import QueueScheduler
from sim.engine.filling import tetris_score
from sim.signals import Signal
from sim.view import ClusterView


class Tetris(QueueScheduler):
    """Jobs that align with the freest server and have little predicted work left go first.

    Packing score plus shortest remaining time (Grandl et al., SIGCOMM 2014). A job's score is its
    alignment, the dot product of its demand on a server and that server's free GPUs on the best
    server (both as shares of a server), plus ε (a - p): p is its predicted remaining work (time x
    GPUs) over the queue's mean, a and ε as the paper weights them (a the mean alignment, so both
    terms have one scale). Our choices where the paper leaves room: one resource; durations are
    predictions; blocked jobs are skipped; placement is `worst_fit`, the highest dot product.
    """

    order_name = "tetris"
    order_needs = Signal.PREDICTION
    engine_code = TETRIS

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs by falling score, then by submission."""
        if len(view.queued) == 0:
            return view.queued
        size = view.topology.gpus_per_server[view.servers]
        free = view.server_free[view.servers] / size
        left_s = view.jobs.predicted_remaining_s[view.queued]
        score = tetris_score(
            view.jobs.num_gpus[view.queued], left_s, float(free.max()), float(size.max())
        )
        return view.queued[np.argsort(-score, kind="stable")]
