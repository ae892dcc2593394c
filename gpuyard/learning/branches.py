"""Learning from paired branches: rounds of playing, branching, regression, and a test by playing.

A round plays training windows under the network as it is, tries other actions in branches
(`marl.net.branching`), and regresses what the network adds to its prior on what they cost
(`marl.training.teaching`). How far to go towards the new weights is chosen by playing other
training windows, staying where it is included.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuyard.launch.errors import ConfigError
from gpuyard.launch.plain_rules import Rules, check_plain
from gpuyard.learning.network_form import NetworkForm
from gpuyard.learning.trainer import TRAIN_WINDOWS, Trainer
from gpuyard.learning.window_play import Ground, field_of
from marl.net.branching import Contrasts, Sampling, joined
from marl.training.teaching import Teaching
from sim.arrays import FloatArray
from sim.errors import InvalidDecision, SimulationError

log = logging.getLogger(__name__)

SHARES = (0.4, 0.7, 1.0, 1.4)  # of the way to what was regressed, tried by playing
HOUR_S = 3600.0
RULES: Rules = {
    "algo.windows": (True, 1),
    "algo.points": (True, 1),
    "algo.alternatives": (True, 1),
    "algo.horizon_h": (False, 0),
    "algo.temperature": (False, 0),
    "algo.uniform": (False, 0),
    "algo.search_windows": (True, 2),
    "algo.epochs": (True, 1),
    "algo.batch": (True, 1),
    "algo.learning_rate": (False, 0),
    "algo.weight_decay": (False, 0),
    "algo.unit_s": (False, 0),
    "algo.step": (False, 0),
}


@dataclass(frozen=True)
class Rounds:
    """What one round does."""

    windows: int  # training windows that are branched
    search_windows: int  # others, that say how far to go
    sampling: Sampling
    teaching: Teaching


def rounds_of(config: Mapping[str, Any]) -> Rounds:
    """From the key `algo`.

    Raises:
        ConfigError: naming key, value and rule.
    """
    check_plain(config, RULES)
    given = config["algo"]
    for key in ("horizon_h", "temperature", "unit_s", "step", "learning_rate"):
        if not given[key] > 0:
            raise ConfigError(f"algo.{key} is {given[key]}; it must be above 0")
    if given["uniform"] > 1:
        raise ConfigError(f"algo.uniform is {given['uniform']}; it is a share, at most 1")
    return Rounds(
        windows=given["windows"],
        search_windows=given["search_windows"],
        sampling=Sampling(
            points=given["points"],
            alternatives=given["alternatives"],
            horizon_s=HOUR_S * given["horizon_h"],
            temperature=given["temperature"],
            uniform=given["uniform"],
        ),
        teaching=Teaching(
            **{
                key: given[key]
                for key in ("epochs", "batch", "learning_rate", "weight_decay", "unit_s", "step")
            },
            temperature=given["temperature"],
        ),
    )


@dataclass(frozen=True, eq=False)
class BranchTask:
    """A window of the part `train` that a network plays, and branches."""

    ground: Ground
    form: NetworkForm
    vector: FloatArray
    sampling: Sampling
    window: int


def play_branches(task: BranchTask) -> tuple[Contrasts | None, bool]:
    """What was tried in this window, and whether its run failed."""
    from gpuyard.learning.network import policy_of  # torch
    from marl.net.branching import Brancher

    field = field_of(task.ground)
    brancher = Brancher(policy_of(task.form, task.vector), task.form.rules, task.sampling)
    simulator = field.simulator("train", task.window, field.window("train", task.window))
    try:
        return brancher.contrasts(simulator, task.window), False
    except (SimulationError, InvalidDecision):
        return None, True


class BranchTrainer(Trainer):
    """Rounds instead of updates of evolution strategies; all else is the same."""

    def __init__(self, rounds: Rounds, **given: Any) -> None:
        """`given`: as `Trainer` takes it; what is saved has the form of a network."""
        super().__init__(**given)
        self._rounds = rounds

    @property
    def runs(self) -> int:
        """Windows played to learn so far; their branches are not counted."""
        played = self._rounds.windows + (1 + len(SHARES)) * self._rounds.search_windows
        return self.saved.climb.update * played

    def _update(self) -> None:
        """One round; what is saved changes at the end, as a whole."""
        climb = self.saved.climb
        rng = np.random.default_rng([climb.seed, climb.update, 2])
        count = self._rounds.windows
        windows = rng.integers(TRAIN_WINDOWS, size=count + self._rounds.search_windows).tolist()
        contrasts = self._branched(windows[:count])
        vector, explained = self._regressed(contrasts)
        share = self._share(vector, windows[count:])
        log.info(
            "round %d: %d branches from %d turns; scores explain %.1f %% of their costs; %s",
            climb.update + 1, len(contrasts), len(contrasts.observations["jobs"]), 100 * explained,
            f"{share:g} of the way" if share > 0 else "no step was better than none",
        )  # fmt: skip
        mean = climb.mean + share * (vector - climb.mean)
        self.saved = replace(
            self.saved, climb=replace(climb, update=climb.update + 1, mean=mean, average=mean)
        )

    def _branched(self, windows: list[int]) -> Contrasts:
        """What is tried in these windows."""
        form, climb = self.saved.form, self.saved.climb
        assert isinstance(form, NetworkForm)
        tasks = [
            BranchTask(self._ground, form, climb.mean, self._rounds.sampling, window)
            for window in windows  # one by one: it takes seconds, and nobody waits for the slowest
        ]
        return joined(self._found(play_branches, tasks, windows))

    def _regressed(self, contrasts: Contrasts) -> tuple[FloatArray, float]:
        """(n,) the weights that regression wants, and the share that they explain."""
        from gpuyard.learning.network import refitted  # torch
        from marl.training.teaching import taught

        form, climb = self.saved.form, self.saved.climb
        assert isinstance(form, NetworkForm)
        seed, how = climb.seed + climb.update, self._rounds.teaching
        vector, explained = refitted(
            form, climb, lambda policy, masks: taught(policy, contrasts, how, masks, seed)
        )
        if not np.isfinite(vector).all():
            raise self._stopped("regression gave a weight that is not finite")
        return vector, explained

    def _share(self, vector: FloatArray, windows: list[int]) -> float:
        """How far to go towards a vector: what plays best; 0: stay."""
        form, mean = self.saved.form, self.saved.climb.mean
        logs = {
            share: float(
                self.crew.windows(
                    self._ground, form.player(mean + share * (vector - mean)), "train", windows
                ).mean()
            )
            for share in (0.0, *SHARES)
        }
        return min(logs, key=lambda share: logs[share])
