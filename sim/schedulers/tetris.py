"""Tetris with GPUs as the one resource."""

import numpy as np

from sim.arrays import IntArray
from sim.queueing import QueueScheduler
from sim.signals import Signal
from sim.view import ClusterView


class Tetris(QueueScheduler):
    """Packing score plus shortest remaining time (Grandl et al., SIGCOMM 2014).

    A job's score is its alignment, the dot product of its demand on a server and that server's
    free GPUs on the best server (both as shares of a server), plus ε (a - p): p is its predicted
    remaining work (time x GPUs) over the queue's mean, a and ε as the paper weights them (a the
    mean alignment, so both terms have one scale). Our choices where the paper leaves room: one
    resource; durations are predictions; blocked jobs are skipped; placement is `worst_fit`, the
    highest dot product.
    """

    order_name = "tetris"
    order_needs = Signal.PREDICTION

    def order(self, view: ClusterView) -> IntArray:
        """Waiting jobs by falling score, then by submission."""
        if len(view.queued) == 0:
            return view.queued
        gangs = view.jobs.num_gpus[view.queued].astype(np.float64)
        size = view.topology.gpus_per_server[view.servers]
        free = view.server_free[view.servers] / size
        wanted = np.minimum(gangs, float(size.max())) / float(size.max())
        alignment = wanted * free.max()
        work_gpu_s = view.jobs.predicted_remaining_s[view.queued] * gangs
        mean = work_gpu_s.mean()
        short = work_gpu_s / mean if mean > 0 else np.zeros_like(work_gpu_s)
        score = alignment - alignment.mean() * short
        return view.queued[np.argsort(-score, kind="stable")]
