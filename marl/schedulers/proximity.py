"""Proximity-DRL as a scheduler: first come, first served, on GPUs that a network picks."""

from pathlib import Path

import numpy as np
import torch

from marl.topdrl.proximity import (
    NEEDS,
    Choosing,
    GpuScores,
    best_gpu,
    load_proximity,
    read_proximity,
)
from marl.topdrl.spec import TopDrlError
from sim.decision import WAIT, Decision, Start
from sim.view import ClusterView


class Proximity:
    """A network trained by PPO picks the GPUs of the job that came first, one by one.

    Source: Deng et al., "Proximity-DRL" (Canadian AI 2024), as in its authors' code; see
    docs/policies/topdrl.md. One queue for the cluster; it fits the number of GPUs that it was
    trained for.
    """

    needs = NEEDS
    one_queue = True
    name = "proximity"

    def __init__(self, *, policy: str | None) -> None:
        """Read the sizes of the policy in folder `policy`.

        Raises:
            TopDrlError: there is no policy.
        """
        if policy is None:
            raise TopDrlError(
                "scheduler=proximity needs a trained policy; add scheduler.policy=FOLDER, the "
                "`policy` folder that scripts/train_topdrl.py picker=proximity wrote"
            )
        self._folder = Path(policy)
        self._spec = read_proximity(self._folder)
        self._network: GpuScores | None = None

    def reset(self, seed: int) -> None:
        """Nothing is kept and nothing drawn."""
        del seed

    def decide(self, view: ClusterView) -> Decision:
        """Start the head of the queue and ask again; wait where it does not fit, or by choice."""
        if len(view.queued) == 0:
            return WAIT
        choosing = Choosing(view, self._spec)
        if not choosing.fits:
            return WAIT
        while not choosing.whole:
            gpu = best_gpu(self._ready(), choosing.observation())
            if gpu == self._spec.gpus:
                return WAIT
            choosing.choose(gpu)
        gpus = np.array(choosing.chosen, dtype=np.int64)
        return Decision(starts=(Start(choosing.job, gpus),), again=True)

    def _ready(self) -> GpuScores:
        if self._network is None:
            torch.set_num_threads(1)  # tiny batches: more threads only wait for each other
            self._network = load_proximity(self._folder)
        return self._network
