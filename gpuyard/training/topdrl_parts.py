"""What `topdrl_training` trains: a picker of jobs or one of GPUs, from `conf/picker/`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from gpuyard.experiment.experiment import Experiment
from gpuyard.launch.build import build
from gpuyard.launch.errors import ConfigError
from marl.rllib.dqn import build_dqn, build_gpu_ppo
from marl.rllib.trainer import PickerTrainer
from marl.schedulers.proximity import Proximity
from marl.schedulers.topdrl import TopDrl
from marl.topdrl.env import ImitationSpec, PickJobEnv, gathered, imitate, play_lessons
from marl.topdrl.network import build_network, save_picker
from marl.topdrl.proximity import GpuPpoSpec, PickGpuEnv, ProximitySpec, save_proximity
from marl.topdrl.spec import DqnSpec, NetworkSpec, RewardSpec, SightSpec, on_cluster
from marl.training.plan import Windows
from sim.protocols import Scheduler

Weights = dict[str, Tensor]
Tell = Callable[[str, int, int, str], None]  # what is done, how much of it, of how much, a note


class Picker(Protocol):
    """One of the two kinds."""

    @property
    def learner(self) -> DqnSpec | GpuPpoSpec:
        """What trains it."""

    def first_weights(self, tell: Tell) -> Weights | None:
        """What training starts from; None: chance."""

    def trainer(self, weights: Weights | None) -> PickerTrainer:
        """The algorithm, ready to train."""

    def save(self, folder: Path, weights: Weights) -> None:
        """Write a policy."""

    def scheduler(self, folder: Path) -> Scheduler:
        """A policy as a scheduler."""


def picker_of(config: Mapping[str, Any], experiment: Experiment) -> Picker:
    """The kind that `picker.kind` names.

    Raises:
        ConfigError: there is no such kind.
    """
    kinds: dict[str, Callable[[Mapping[str, Any], Experiment], Picker]] = {
        "jobs": JobPicker, "gpus": GpuPicker,
    }  # fmt: skip
    kind = config["picker"]["kind"]
    if kind not in kinds:
        raise ConfigError(f"picker.kind is {kind!r}; it must be {' or '.join(kinds)}")
    return kinds[kind](config, experiment)


def _windows(experiment: Experiment, part: str) -> Windows:
    e = experiment
    return Windows(workload=e.workload, setting=e.setting, part=part, seed=e.seed)


class JobPicker:
    """A Q-network that picks jobs."""

    def __init__(self, config: Mapping[str, Any], experiment: Experiment) -> None:
        """Read `picker`."""
        told = config["picker"]
        self.learner: DqnSpec = build(config, "picker.learner")
        self._experiment = experiment
        self._sight = SightSpec(**told["sight"])
        self._network = on_cluster(NetworkSpec(**told["network"]), experiment.game.topology)
        self._reward = RewardSpec(**told["reward"])
        self._imitation = ImitationSpec(**told["imitation"])

    def _env(self) -> PickJobEnv:
        return PickJobEnv(
            game=self._experiment.game,
            sight=self._sight,
            network=self._network,
            reward=self._reward,
            make_jobs=_windows(self._experiment, "train"),
        )

    def first_weights(self, tell: Tell) -> Weights | None:
        """Of a network that imitates the rule; None without lessons."""
        spec, seed = self._imitation, self._experiment.seed
        network = build_network(self._network, self._sight)
        if spec.episodes == 0:
            return None
        episodes = []
        for episode in play_lessons(self._env(), spec, self.learner.gamma, seed):
            episodes.append(episode)
            tell("teacher plays", len(episodes), spec.episodes, "")
        for epoch, (loss, agreed) in enumerate(imitate(network, gathered(episodes), spec, seed)):
            tell("imitation", epoch + 1, spec.epochs, f"agrees {agreed:.1%}, loss {loss:.3f}")
        return dict(network.state_dict())

    def trainer(self, weights: Weights | None) -> PickerTrainer:
        """Double DQN."""
        return PickerTrainer(
            build_dqn(
                make_env=self._env,
                dqn=self.learner,
                network=self._network,
                sight=self._sight,
                imitation=self._imitation,
                weights=weights,
                seed=self._experiment.seed,
            )
        )

    def save(self, folder: Path, weights: Weights) -> None:
        """Weights, network and sight."""
        save_picker(folder, weights, self._network, self._sight)

    def scheduler(self, folder: Path) -> Scheduler:
        """On the closest GPUs."""
        return TopDrl(policy=str(folder), name="topdrl")


class GpuPicker:
    """A policy that picks GPUs."""

    def __init__(self, config: Mapping[str, Any], experiment: Experiment) -> None:
        """Read `picker`."""
        self.learner: GpuPpoSpec = build(config, "picker.learner")
        self._experiment = experiment
        spec = ProximitySpec(**config["picker"]["proximity"])
        self._spec = replace(spec, gpus=experiment.game.topology.num_gpus)

    def first_weights(self, tell: Tell) -> Weights | None:
        """None: chance."""
        del tell
        return None

    def trainer(self, weights: Weights | None) -> PickerTrainer:
        """PPO."""
        del weights

        def make_env() -> PickGpuEnv:
            return PickGpuEnv(
                game=self._experiment.game,
                spec=self._spec,
                make_jobs=_windows(self._experiment, "train"),
            )

        seed = self._experiment.seed
        return PickerTrainer(
            build_gpu_ppo(make_env=make_env, ppo=self.learner, spec=self._spec, seed=seed)
        )

    def save(self, folder: Path, weights: Weights) -> None:
        """Weights and sizes."""
        save_proximity(folder, weights, self._spec)

    def scheduler(self, folder: Path) -> Scheduler:
        """First come, first served."""
        return Proximity(policy=str(folder))


def validation_jobs(experiment: Experiment, count: int) -> Iterator[Any]:
    """The first windows of the validation part."""
    windows = _windows(experiment, "validation")
    return (windows(index) for index in range(count))
