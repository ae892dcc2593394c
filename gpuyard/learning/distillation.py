"""Learning from a teacher: rounds in which the network plays and is shown what to do instead.

The teacher is a linear score that reads all columns; the network may be kept from some (`hide`).
In the first round the teacher plays every second window, later the network plays all.
"""

import logging
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuyard.launch.errors import ConfigError
from gpuyard.launch.plain_rules import Rules, check_plain
from gpuyard.learning.network_form import NetworkForm
from gpuyard.learning.trainer import TRAIN_WINDOWS, Trainer
from gpuyard.learning.window_play import Ground, field_of
from marl.training.teaching import Distilling, Shown, joined
from sim.arrays import FloatArray
from sim.errors import InvalidDecision, SimulationError

log = logging.getLogger(__name__)

RULES: Rules = {
    "algo.windows": (True, 1),
    "algo.share": (False, 0),
    "algo.epochs": (True, 1),
    "algo.batch": (True, 1),
    "algo.learning_rate": (False, 0),
    "algo.weight_decay": (False, 0),
}


@dataclass(frozen=True, eq=False)
class Teacher:
    """A network that is nothing but its prior."""

    form: NetworkForm
    vector: FloatArray


@dataclass(frozen=True)
class Rounds:
    """What one round does."""

    windows: int
    share: float  # of their turns
    fit: Distilling


def rounds_of(config: Mapping[str, Any]) -> Rounds:
    """From the key `algo`.

    Raises:
        ConfigError: naming key, value and rule.
    """
    check_plain(config, RULES)
    given = config["algo"]
    for key in ("share", "learning_rate"):
        if not given[key] > 0:
            raise ConfigError(f"algo.{key} is {given[key]}; it must be above 0")
    if given["share"] > 1:
        raise ConfigError(f"algo.share is {given['share']}; it is a share, at most 1")
    keys = ("epochs", "batch", "learning_rate", "weight_decay")
    return Rounds(given["windows"], given["share"], Distilling(**{key: given[key] for key in keys}))


@dataclass(frozen=True, eq=False)
class WatchTask:
    """A window of the part `train` that is played and scored."""

    ground: Ground
    form: NetworkForm
    vector: FloatArray
    teacher: Teacher
    led: bool  # by the teacher
    share: float
    window: int


def watch_window(task: WatchTask) -> tuple[Shown | None, bool]:
    """What was shown in this window, and whether its run failed."""
    from gpuyard.learning.network import policy_of  # torch
    from marl.training.teaching import watch

    field = field_of(task.ground)
    # A copy: the next call of `policy_of` may write on the same network.
    teacher = deepcopy(policy_of(task.teacher.form, task.teacher.vector))
    player = teacher if task.led else policy_of(task.form, task.vector)
    simulator = field.simulator("train", task.window, field.window("train", task.window))
    try:
        rules = task.form.rules
        return watch(player, teacher, rules, simulator, task.share, task.window), False
    except (SimulationError, InvalidDecision):
        return None, True


class DistilTrainer(Trainer):
    """Rounds instead of updates of evolution strategies; all else is the same."""

    def __init__(self, rounds: Rounds, teacher: Teacher, **given: Any) -> None:
        """`given`: as `Trainer` takes it; what is saved has the form of a network."""
        super().__init__(**given)
        self._rounds, self._teacher = rounds, teacher

    @property
    def runs(self) -> int:
        """Windows played to learn so far."""
        return self.saved.climb.update * self._rounds.windows

    def _update(self) -> None:
        """One round; what is saved changes at the end, as a whole."""
        from gpuyard.learning.network import refitted
        from marl.training.teaching import distil

        form, climb = self.saved.form, self.saved.climb
        assert isinstance(form, NetworkForm)
        shown = self._shown(form)
        vector, alike = refitted(
            form,
            climb,
            lambda policy, masks: distil(
                policy, shown, self._rounds.fit, masks, climb.seed + climb.update
            ),
        )
        if not np.isfinite(vector).all():
            raise self._stopped("the fit gave a weight that is not finite")
        log.info(
            "round %d: %d turns; it chooses as its teacher at %.1f %% of them",
            climb.update + 1, len(shown), 100 * alike,
        )  # fmt: skip
        self.saved = replace(
            self.saved, climb=replace(climb, update=climb.update + 1, mean=vector, average=vector)
        )

    def _shown(self, form: NetworkForm) -> Shown:
        """What the teacher says of this round's windows."""
        climb = self.saved.climb
        rng = np.random.default_rng([climb.seed, climb.update, 3])
        windows = rng.integers(TRAIN_WINDOWS, size=self._rounds.windows).tolist()
        tasks = [
            WatchTask(
                self._ground, form, climb.mean, self._teacher,
                climb.update == 0 and at % 2 == 0, self._rounds.share, window,
            )
            for at, window in enumerate(windows)
        ]  # fmt: skip
        return joined(self._found(watch_window, tasks, windows))
