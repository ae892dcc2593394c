"""Asynchronous PPO (APPO) on RLlib's new API stack: env runners sample while the learner learns.

What is learned from was played by earlier weights. V-trace (Espeholt et al., "IMPALA", ICML 2018)
corrects returns for that; the clip is around a target network that follows by copies (Luo et al.,
"IMPACT", ICLR 2020). Turns of all agents stand one after the other in rows of equal length, as
RLlib's learner wants them; nothing of an agent counts for another, for each one's turns end in one
that only its value is taken of.
"""

from typing import Any

import torch
from ray.rllib.algorithms.appo import APPO, APPOConfig
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_RL_MODULE
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import (
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    InferenceOnlyAPI,
    TargetNetworkAPI,
)
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_AGENT_STEPS_SAMPLED_LIFETIME
from torch import Tensor

from marl.rllib.algorithm import (
    FusedAdam,
    PairScoreModule,
    Setup,
    configured,
    learners_of,
    shared_knobs,
)
from marl.rllib.cluster import built
from marl.training.spec import AppoSpec

LOOK_UP_S = 0.05  # env runners that are still at work are not waited for any longer


class FollowedModule(PairScoreModule, TargetNetworkAPI, InferenceOnlyAPI):
    """With a copy of the network, where it learns, that follows it."""

    def get_non_inference_attributes(self) -> list[str]:
        """What env runners do without."""
        return ["target"]

    def make_target_networks(self) -> None:
        """The copy."""
        self.target = make_target_network(self.policy)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        """What follows what."""
        return [(self.policy, self.target)]

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """(B, actions) logits of the copy."""
        with torch.no_grad():
            return {TARGET_NETWORK_ACTION_DIST_INPUTS: self.target(batch[Columns.OBS]).logits}


class FollowedLearner(FusedAdam, APPOTorchLearner):
    """RLlib's, discounting by seconds if told so."""

    def build(self) -> None:
        """Put the discount behind all that makes a batch."""
        super().build()
        for piece in self.discounts():
            self._learner_connector.append(piece)


class AsynchronousPPO(APPO):
    """RLlib's, in iterations of `batch_agent_steps`."""

    batch_agent_steps: int

    def training_step(self) -> None:
        """Learn from what comes until so many steps have; not while all env runners are lost.

        RLlib would sample in this process then, which has no environment.
        """
        assert self.config is not None
        until = self._sampled() + self.batch_agent_steps
        while self._sampled() < until:
            if self.config.num_env_runners > 0 and not self._any_well():
                return
            super().training_step()

    def _sampled(self) -> float:
        counts = self.metrics.peek(
            (ENV_RUNNER_RESULTS, NUM_AGENT_STEPS_SAMPLED_LIFETIME), default={}
        )
        return sum(counts.values())

    def _any_well(self) -> bool:
        assert self.env_runner_group is not None
        return self.env_runner_group.num_healthy_remote_workers() > 0

    def train(self) -> Any:
        """An iteration; `get_module` has what was learned then: RLlib sends it to others only."""
        result = super().train()
        assert self.learner_group is not None
        learner = self.learner_group.get_state(
            components=[f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}"], inference_only=True
        )[COMPONENT_LEARNER]
        self.env_runner.set_state({COMPONENT_RL_MODULE: learner[COMPONENT_RL_MODULE]})
        return result


def build_appo(setup: Setup, appo: AppoSpec) -> APPO:
    """The algorithm, ready to train; RayError: as `learners_of`."""
    learners_of(appo, setup.policy, setup.ray)
    config = (
        configured(APPOConfig(AsynchronousPPO), setup, appo, FollowedModule)
        # An env runner sends a minibatch at once, however many there are: long stretches of agents.
        .env_runners(rollout_fragment_length=-(-appo.minibatch_agent_steps // appo.envs_per_runner))
        .training(
            **shared_knobs(appo, FollowedLearner),
            train_batch_size_per_learner=appo.minibatch_agent_steps,
            use_circular_buffer=False,  # a minibatch is learned from when it comes, and not again
            circular_buffer_num_batches=1,
            circular_buffer_iterations_per_batch=1,
            target_network_update_freq=appo.target_updates * appo.epochs,  # it counts each epoch
            timeout_s_sampler_manager=LOOK_UP_S,
        )
        .reporting(min_time_s_per_iteration=0)
    )
    config.use_env_runner_state_server = False  # our env runner is sent weights
    algorithm: AsynchronousPPO = built(config)
    algorithm.batch_agent_steps = appo.batch_agent_steps
    return algorithm
