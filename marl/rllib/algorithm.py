"""Multi-agent PPO on RLlib's new API stack: one policy for all agents, one a group or each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.learner import GeneralAdvantageEstimation
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.tune.registry import register_env
from torch import Tensor

from marl.env.layout import Observation
from marl.env.scheduling_env import SchedulingEnv
from marl.policy.build import PolicySpec, build_policy
from marl.rllib.array_runner import ELAPSED_S, ArrayEnvRunner
from marl.rllib.cluster import ENV_NAME, RETURN_WINDOW, SHARED, WHOLE_RETURN, built, placed
from marl.training.episodes import stream_seed
from marl.training.spec import AgentsSpec, AppoSpec, PpoSpec, RayError, RaySpec

ALL = "__all__"
Flags = dict[str, bool]
Step = tuple[dict[str, Observation], dict[str, float], Flags, Flags, dict[str, Any]]


class RllibSchedulingEnv(MultiAgentEnv):
    """Wraps a `SchedulingEnv`.

    RLlib's own PettingZoo wrapper turns truncation into termination, fails when the agents of a
    step change, and would train on agents that have no choice; hence this one. Rewards come for
    every agent at every step: RLlib adds those between an agent's turns to its last action, and
    leaves out those before its first turn, which no action of its own has caused.
    """

    def __init__(self, env: SchedulingEnv, *, seed: int, first_cut_frac: float) -> None:
        """`seed` starts this copy's own stream of episodes.

        The first episode is cut after about `first_cut_frac` of its length, different for each
        copy, so that copies do not all fill and drain their clusters in the same iterations.
        """
        super().__init__()
        self.env = env
        self.possible_agents = list(env.possible_agents)
        self.agents: list[str] = []
        self.observation_spaces = {a: env.observation_space(a) for a in self.possible_agents}
        self.action_spaces = {a: env.action_space(a) for a in self.possible_agents}
        self._first_seed: int | None = seed
        self._first_cut_frac = first_cut_frac

    @property
    def now_s(self) -> float:
        """Time in the episode."""
        assert self.env.turns is not None
        return self.env.turns.now_s

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Any]]:
        """The next episode of this copy's stream; RLlib's seed, equal for all copies, is unused.

        Episodes in which nobody ever has a choice (all jobs are withdrawn at once) are passed by.
        """
        del seed, options
        first = self._first_seed is not None
        cut = {"cut_frac": self._first_cut_frac} if first else None
        observations = _with_a_choice(self.env.reset(seed=self._first_seed, options=cut)[0])
        while not observations:
            observations = _with_a_choice(self.env.reset()[0])
        self._first_seed = None
        self.agents = list(self.possible_agents)
        return observations, {}

    def step(self, actions: dict[str, int]) -> Step:
        """One turn; agents without a choice wait."""
        observations, rewards, ended, cut, infos = self.env.step(actions)
        over, truncated = all(ended.values()), any(cut.values())
        if over or truncated:
            self.agents = []
            # Everyone gets a last observation; the flags of single agents stay unset, because
            # RLlib would take an agent that is done by itself for terminated.
            return observations, rewards, {ALL: over}, {ALL: truncated}, infos
        return _with_a_choice(observations), rewards, {ALL: False}, {ALL: False}, {}


def _with_a_choice(observations: dict[str, Observation]) -> dict[str, Observation]:
    return {a: o for a, o in observations.items() if o["action_mask"][:-1].any()}


class LazyCategorical(TorchCategorical):
    """Equal to `TorchCategorical`, at less than half of its time in PPO's loss.

    RLlib's loss makes two distributions a minibatch and asks one of them for nothing unless there
    is a KL penalty, and the other for what one log-softmax answers; torch's own normalises its
    logits, and takes their softmax anew, whenever one is made.
    """

    def __init__(self, logits: Tensor) -> None:
        """`logits` (..., actions)."""
        self.logits, self.probs, self._one_hot = logits, None, None

    @cached_property
    def _dist(self) -> torch.distributions.Categorical:
        return torch.distributions.Categorical(logits=self.logits, validate_args=False)

    @cached_property
    def _log_p(self) -> Tensor:
        return torch.log_softmax(self.logits, -1)

    def logp(self, value: Tensor, **kwargs: Any) -> Tensor:
        """(...,) logarithm of the probability of actions (...,)."""
        del kwargs
        return self._log_p.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """(...,) in nats."""
        return -(self._log_p.exp() * self._log_p).sum(-1)


CHUNK_ROWS = 1024  # the advantage pass judges the whole train batch: bound its memory


class PairScoreModule(TorchRLModule, ValueFunctionAPI):
    """`model_config`: `spec` (PolicySpec as dict), `weights` (or None)."""

    def setup(self) -> None:
        """Build the network, from given weights if there are any."""
        config = self.model_config
        self.action_dist_cls = LazyCategorical
        self.policy = build_policy(PolicySpec(**config["spec"]))
        if config["weights"] is not None:
            self.policy.load_state_dict(config["weights"])

    def logits(self, observations: dict[str, Tensor]) -> Tensor:
        """(B, actions) without gradient.

        As RLlib's `forward_exploration`, but for the walk over all layers that puts them into
        evaluation mode: none differs in it, and at each step it took a third of the network's time.
        """
        with torch.inference_mode():
            logits: Tensor = self.policy(observations).logits
        return logits

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        del kwargs
        return {Columns.ACTION_DIST_INPUTS: self.logits(batch[Columns.OBS])}

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward_exploration(batch, **kwargs)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        del kwargs
        scores = self.policy(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: scores.logits, Columns.EMBEDDINGS: scores.state}

    def compute_values(self, batch: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """(B,) values; without embeddings it is the advantage pass, which needs no gradient."""
        if embeddings is not None:
            return self.policy.values(embeddings)
        observation: dict[str, Tensor] = batch[Columns.OBS]
        rows = len(observation["context"])
        judged = []
        with torch.no_grad():
            for first in range(0, rows, CHUNK_ROWS):
                part = {k: v[first : first + CHUNK_ROWS] for k, v in observation.items()}
                judged.append(self.policy.values(self.policy.encode(part)[0]))
        return torch.cat(judged)


class DiscountBySeconds(ConnectorV2):
    """Makes what follows a turn count exp(-seconds until the agent's next turn / `discount_s`).

    RLlib's advantages take from what follows the share of a turn that has ended; a share lost to
    time is taken in the same way (a semi-Markov process: Bradtke and Duff, NIPS 1994).
    """

    def __init__(self, discount_s: float) -> None:
        """`discount_s`: a reward so much later counts 1/e."""
        super().__init__()
        self._discount_s = discount_s

    def __call__(self, *, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Write the shares."""
        del kwargs
        for module in batch.values():
            lost = 1.0 - torch.exp(-module[ELAPSED_S] / self._discount_s)
            ended = module[Columns.TERMINATEDS]
            module[Columns.TERMINATEDS] = torch.maximum(ended.to(lost.dtype), lost)
        return batch


class FusedAdam(TorchLearner):
    """Adam by torch's fused form, which takes half of the time with small networks."""

    def discounts(self) -> list[DiscountBySeconds]:
        """What discounts by seconds, if that is told."""
        discount_s = self.config.learner_config_dict.get("discount_s")
        return [] if discount_s is None else [DiscountBySeconds(discount_s)]

    def configure_optimizers_for_module(self, module_id: Any, config: Any = None) -> None:
        """One optimiser for all parameters of a module."""
        parameters = self.get_parameters(self._module[module_id])
        self.register_optimizer(
            module_id=module_id,
            optimizer=torch.optim.Adam(parameters, fused=True),
            params=parameters,
            lr_or_lr_schedule=config.lr,
        )


class FusedLearner(FusedAdam, PPOTorchLearner):
    """RLlib's, discounting by seconds if told so."""

    def build(self) -> None:
        """Put the discount before the advantages."""
        super().build()
        for piece in self.discounts():
            self._learner_connector.insert_before(GeneralAdvantageEstimation, piece)


def note_whole_episode(
    *, episode: Any, prev_episode_chunks: list[Any], metrics_logger: Any, **_: Any
) -> None:
    """Log the return of episodes that were played to their end; cut ones say little."""
    if episode.is_terminated:
        whole = sum(chunk.get_return() for chunk in [*prev_episode_chunks, episode])
        metrics_logger.log_value(WHOLE_RETURN, whole, window=RETURN_WINDOW)


def _everyone_shares(*_: Any, **__: Any) -> str:
    return SHARED


def shared_knobs(spec: AgentsSpec, learner: type[FusedAdam]) -> dict[str, Any]:
    """RLlib's names for knobs of any algorithm for agents."""
    return {
        "num_epochs": spec.epochs,
        "lr": spec.learning_rate,
        "gamma": spec.gamma,
        "clip_param": spec.clip,
        "entropy_coeff": spec.entropy,
        "vf_loss_coeff": spec.value_weight,
        "grad_clip": spec.grad_clip,
        "use_kl_loss": False,
        "learner_class": learner,
        "learner_config_dict": {"discount_s": spec.discount_s},
    }


def learners_of(spec: AgentsSpec, policy: PolicySpec, ray: RaySpec | None) -> int:
    """How many share each batch; RayError where several, or processes of theirs, cannot."""
    learners = 1 if ray is None else max(1, ray.num_learners)
    if isinstance(spec, AppoSpec) and ray is not None and ray.num_learners > 0:
        raise RayError(
            f"ray.num_learners is {ray.num_learners}: algo=appo learns in the training process; "
            "set ray.num_learners=0, or train with algo=ppo"
        )
    if learners > 1 and not spec.array_runner:
        raise RayError(
            f"ray.num_learners is {learners} with algo.array_runner=false: RLlib cannot divide its "
            "own batches of agents that act at different times; set algo.array_runner=true"
        )
    if learners > 1 and policy.agents:
        raise RayError(
            f"ray.num_learners is {learners} with several policy.networks: a learner may get no "
            "turn of one, for which the others would wait; set ray.num_learners=1"
        )
    return learners


def _creator(
    make_env: Callable[[], SchedulingEnv], spec: AgentsSpec, seed: int, behind: int
) -> Callable[[Any], RllibSchedulingEnv]:
    """Makes the copies of every runner, each with a stream of its own, other ones on a resume."""
    copies = count()  # RLlib gives all copies of a runner one context: tell them apart here

    def create(context: Any) -> RllibSchedulingEnv:
        copy = next(copies) % spec.envs_per_runner
        first = seed * 1_000_003 + 1000 * int(context.worker_index) + copy
        return RllibSchedulingEnv(
            make_env(),
            seed=stream_seed(first, behind),
            first_cut_frac=(copy + 0.5) / spec.envs_per_runner,
        )

    return create


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What an algorithm for agents is made of, whatever it learns by."""

    make_env: Callable[[], SchedulingEnv]
    policy: PolicySpec
    weights: dict[str, Any] | None  # start the policy; None draws them
    seed: int
    ray: RaySpec | None = None  # of its processes, and how lost ones return; None: as RLlib has it
    # Iterations of the checkpoint that it is to go on from, which plays other windows and draws
    # other numbers.
    behind: int = 0


def configured(
    config: AlgorithmConfig, setup: Setup, spec: AgentsSpec, module: type[PairScoreModule]
) -> AlgorithmConfig:
    """`config` of an algorithm, with all but its own knobs."""
    register_env(ENV_NAME, _creator(setup.make_env, spec, setup.seed, setup.behind))
    model = {"spec": setup.policy.as_dict(), "weights": setup.weights}
    config = (
        config.environment(ENV_NAME, disable_env_checking=True)
        .env_runners(
            env_runner_cls=ArrayEnvRunner if spec.array_runner else None,
            num_env_runners=spec.env_runners,
            num_envs_per_env_runner=spec.envs_per_runner,
            rollout_fragment_length="auto",
            batch_mode="truncate_episodes",
        )
        .multi_agent(
            policies={SHARED}, policy_mapping_fn=_everyone_shares, count_steps_by="agent_steps"
        )
        .rl_module(rl_module_spec=RLModuleSpec(module_class=module, model_config=model))
        .callbacks(on_episode_end=note_whole_episode)
        .learners(num_learners=0)
        # RLlib would look at every gradient twice and make those zero that are not finite; the
        # trainer ends such a training instead, after its last checkpoint.
        .framework(torch_skip_nan_gradients=True)
        .debugging(seed=stream_seed(setup.seed, setup.behind), log_level="ERROR")
    )
    return config if setup.ray is None else placed(config, setup.ray)


def build_ppo(setup: Setup, ppo: PpoSpec) -> PPO:
    """The algorithm, ready to train; RayError: as `learners_of`."""
    learners = learners_of(ppo, setup.policy, setup.ray)  # they share each batch
    config = configured(PPOConfig(), setup, ppo, PairScoreModule)
    return built(
        config.training(
            **shared_knobs(ppo, FusedLearner),
            train_batch_size_per_learner=-(-ppo.batch_agent_steps // learners),
            minibatch_size=-(-ppo.minibatch_agent_steps // learners),
            lambda_=ppo.gae_lambda,
            vf_clip_param=ppo.value_clip,
        )
    )
