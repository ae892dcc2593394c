"""Pickers as schedulers: TopDRL's of jobs, its teacher, Proximity-DRL's of GPUs."""

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from marl.topdrl import codec
from marl.topdrl.env import CompactTeacher
from marl.topdrl.network import load_picker, read_picker
from marl.topdrl.proximity import GpuScores, best_gpu, head, load_proximity, read_proximity
from sim.decision import WAIT, Decision, Start
from sim.view import ClusterView


class _Picker(ABC):
    """Sees a window of waiting jobs through a codec, and starts one of them or holds."""

    needs = codec.NEEDS
    one_queue = True
    _observation: codec.ObservationSpec
    _codec: codec.Codec | None = None

    def reset(self, seed: int) -> None:
        """Forget the run; nothing is drawn."""
        del seed
        self._codec = None

    def decide(self, view: ClusterView) -> Decision:
        """Start the best slot and ask again, or hold."""
        if len(view.queued) == 0:
            return WAIT
        if self._codec is None:
            self._codec = codec.Codec(view, self._observation, self._fitting(view))
        turn = self._codec.turn(view)
        if not turn.has_choice:
            return WAIT
        return turn.decision(self._act(turn.observation))

    @abstractmethod
    def _fitting(self, view: ClusterView) -> codec.NetworkSpec:
        """Sizes for this cluster."""

    @abstractmethod
    def _act(self, observation: codec.Observation) -> int:
        """A slot, or hold (the last)."""


class TopDrl(_Picker):
    """A convolutional network picks the job; the closest free GPUs take it.

    Source: Ayadi et al., "TopDRL" (JPDC 204:105138, 2025). What could not be found there was
    chosen, see docs/policies/topdrl.md. Jobs are neither preempted nor shared. One queue for the
    cluster.
    """

    def __init__(self, *, policy: str | None, name: str) -> None:
        """Read the sizes of the policy in folder `policy`; TopDrlError: there is none."""
        if policy is None:
            raise codec.TopDrlError(
                f"scheduler={name} needs a trained policy; add scheduler.policy=FOLDER, the "
                "`policy` folder that scripts/train_topdrl.py wrote"
            )
        self.name = name
        self._folder = Path(policy)
        self._network, self._observation = read_picker(self._folder)

    def _fitting(self, view: ClusterView) -> codec.NetworkSpec:
        """Sizes for this cluster; a network with several branches fits any number of racks."""
        if self._network.branches == codec.MULTI:
            return codec.on_cluster(self._network, view.topology)
        return self._network

    def _act(self, observation: codec.Observation) -> int:
        return best_action(self._module, observation)

    @cached_property
    def _module(self) -> nn.Module:
        torch.set_num_threads(1)  # tiny batches: more threads only wait for each other
        return load_picker(self._folder)[0]


def best_action(network: nn.Module, observation: codec.Observation) -> int:
    """The action of the largest Q-value."""
    batch = {key: torch.from_numpy(value)[None] for key, value in observation.items()}
    with torch.no_grad():
        return int(network(batch)[0].argmax())


class TopDrlRule(_Picker):
    """Most valuable job first, where its closest GPUs are compact enough.

    Ours: it shows how much of TopDRL's result is the rule's and how much was learnt.
    """

    name = "topdrl_rule"

    def __init__(self, *, least_speed: float, observation: dict[str, Any]) -> None:
        """`least_speed` is relative to compact GPUs; `observation` as a network's.

        Raises:
            TopDrlError: a value is out of range.
        """
        self._teacher = CompactTeacher(least_speed)
        self._observation = codec.ObservationSpec(**observation)

    def _fitting(self, view: ClusterView) -> codec.NetworkSpec:
        most = int(view.topology.gpus_per_server.max())
        seen = codec.NetworkSpec(branches=codec.MULTI, channels=1, hidden=1, server_gpus=most)
        return codec.on_cluster(seen, view.topology)

    def _act(self, observation: codec.Observation) -> int:
        return self._teacher.act(observation)


class Proximity:
    """A network trained by PPO picks the GPUs of the job that came first, one by one.

    After Deng et al., "Proximity-DRL" (Canadian AI 2024): what it observes and the reward of a
    placement are those of its authors' code; two tanh layers, clipped PPO, masked actions and the
    penalty of an idle step are ours (docs/policies/topdrl.md). One queue for the cluster; it fits
    the number of GPUs that it was trained for.
    """

    needs = codec.NEEDS
    one_queue = True
    name = "proximity"
    _until_free: codec.UntilFree | None = None

    def __init__(self, *, policy: str | None) -> None:
        """Read the sizes of the policy in folder `policy`, or raise a TopDrlError."""
        if policy is None:
            raise codec.TopDrlError(
                "scheduler=proximity needs a trained policy; add scheduler.policy=FOLDER, the "
                "`policy` folder that scripts/train_topdrl.py picker=proximity wrote"
            )
        self._folder = Path(policy)
        self._spec = read_proximity(self._folder)

    def reset(self, seed: int) -> None:
        """Forget the run; nothing is drawn."""
        del seed
        self._until_free = None

    def decide(self, view: ClusterView) -> Decision:
        """Start the head of the queue and ask again; wait where it does not fit, or by choice."""
        if self._until_free is None:
            self._until_free = codec.UntilFree(codec.Pricing(view))
        choosing = head(view, self._spec, self._until_free)
        if choosing is None:
            return WAIT
        while not choosing.whole:
            gpu = best_gpu(self._network, choosing.observation())
            if gpu == self._spec.gpus:
                return WAIT
            choosing.choose(gpu)
        gpus = np.array(choosing.chosen, dtype=np.int64)
        return Decision(starts=(Start(choosing.job, gpus),), again=True)

    @cached_property
    def _network(self) -> GpuScores:
        torch.set_num_threads(1)  # tiny batches: more threads only wait for each other
        return load_proximity(self._folder)
