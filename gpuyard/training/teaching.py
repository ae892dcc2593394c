"""Learning from paired branches: rounds of playing, branching, regression, and a test by playing.

A round plays training windows under the network as it is, tries other actions in branches
(`marl.policy.branching`), and regresses what the network adds to its prior on what they cost
(`marl.training.teaching`). How far to go towards the new weights is chosen by playing other
training windows, staying where it is included.

PPO by branches: smaller rounds of the same kind, whose contrasts are the advantages of PPO's
clipped objective. It says itself how far to go, so nothing is tried by playing; what plays in the
end is the average of the iterates, as with evolution strategies.

Learning from a teacher: rounds in which the network plays and is shown what to do instead. The
teacher is a linear score that reads all columns; the network may be kept from some (`hide`). In the
first round the teacher plays every second window, later the network plays all.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from gpuyard.launch.build import Rules, check_plain
from gpuyard.launch.errors import ConfigError
from gpuyard.training.form import NetworkForm
from gpuyard.training.network import refitted
from gpuyard.training.strategies import moved
from gpuyard.training.trainer import Trainer
from gpuyard.training.windows import TRAIN, SourceSpec, source_of
from marl.policy.branching import Brancher, Contrasts, Sampling, by_shape
from marl.policy.branching import joined as joined_contrasts
from marl.training.episodes import Shown, joined, watch
from marl.training.teaching import Clipping, Fitting, Teaching, distil, improved, taught
from sim.arrays import FloatArray
from sim.errors import InvalidDecision, SimulationError
from sim.times import HOUR_S

log = logging.getLogger(__name__)

SHARES = (0.4, 0.7, 1.0, 1.4)  # of the way to what was regressed, tried by playing
FALLS_FROM, LAST_RATE = 0.5, 0.1
FIT_RULES: Rules = {
    "algo.windows": (True, 1),
    "algo.epochs": (True, 1),
    "algo.batch": (True, 1),
    "algo.learning_rate": (False, 0),
    "algo.weight_decay": (False, 0),
}
SAMPLING_RULES: Rules = FIT_RULES | {
    "algo.points": (True, 1),
    "algo.alternatives": (True, 1),
    "algo.horizon_h": (False, 0),
    "algo.temperature": (False, 0),
    "algo.uniform": (False, 0),
    "algo.unit_s": (False, 0),
}
BRANCH_RULES = SAMPLING_RULES | {"algo.search_windows": (True, 2), "algo.step": (False, 0)}
PPO_RULES = SAMPLING_RULES | {"algo.clip": (False, 0)}
DISTIL_RULES = FIT_RULES | {"algo.share": (False, 0)}

Fit = TypeVar("Fit", bound=Fitting)  # of `marl.training.teaching`


@dataclass(frozen=True)
class Rounds(Generic[Fit]):
    """What one round does."""

    windows: int  # training windows that are branched, or shown to a teacher
    fit: Fit
    sampling: Sampling | None = None  # of branches
    points: int = 0  # turns of a window that are branched
    search_windows: int = 0  # others, that say how far to go
    share: float = 1.0  # of the turns that a teacher is shown


def branch_rounds(config: Mapping[str, Any]) -> Rounds[Teaching]:
    """From the key `algo`.

    Raises:
        ConfigError: naming key, value and rule.
    """
    given = _given(config, BRANCH_RULES, "unit_s", "step")
    teaching = Teaching(
        **_fit(given), **{key: given[key] for key in ("unit_s", "step", "temperature")}
    )
    return Rounds(
        given["windows"], teaching, _sampling_of(given), given["points"], given["search_windows"]
    )


def _given(config: Mapping[str, Any], rules: Rules, *above: str) -> Mapping[str, Any]:
    """The key `algo`, by its rules; numbers `above` 0 and the learning rate are more than that."""
    check_plain(config, rules)
    given: Mapping[str, Any] = config["algo"]
    _check_above(given, "learning_rate", *above)
    return given


def _fit(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: given[key] for key in ("epochs", "batch", "learning_rate", "weight_decay")}


def _check_above(given: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if not given[key] > 0:
            raise ConfigError(f"algo.{key} is {given[key]}; it must be above 0")


def _sampling_of(given: Mapping[str, Any]) -> Sampling:
    _check_above(given, "horizon_h", "temperature")
    if given["uniform"] > 1:
        raise ConfigError(f"algo.uniform is {given['uniform']}; it is a share, at most 1")
    return Sampling(
        alternatives=given["alternatives"],
        horizon_s=HOUR_S * given["horizon_h"],
        temperature=given["temperature"],
        uniform=given["uniform"],
    )


def ppo_rounds(config: Mapping[str, Any]) -> Rounds[Clipping]:
    """As `branch_rounds`."""
    given = _given(config, PPO_RULES, "unit_s", "clip")
    clipping = Clipping(**_fit(given), unit_s=given["unit_s"], clip=given["clip"])
    return Rounds(given["windows"], clipping, _sampling_of(given), given["points"])


def play_branches(
    source_spec: SourceSpec, form: NetworkForm, vector: FloatArray, sampling: Sampling, points: int,
    task: tuple[int, int],
) -> tuple[Contrasts | None, bool]:  # fmt: skip
    """What was tried at so many points of a window of the part `train`; whether its run failed.

    `task`: the window, and the seed of the turns and actions that are tried.
    """
    source, (window, seed) = source_of(source_spec), task
    brancher = Brancher(form.policy(vector), form.rules, sampling)
    simulator = source.simulator(TRAIN, window, source.window(TRAIN, window))
    try:
        return brancher.contrasts(simulator, seed, points), False
    except (SimulationError, InvalidDecision):
        return None, True


class _RoundsTrainer(Trainer, Generic[Fit]):
    """Rounds instead of updates of evolution strategies; all else is the same."""

    def __init__(self, rounds: Rounds[Fit], **given: Any) -> None:
        """`given`: as `Trainer` takes it; what is saved has the form of a network."""
        super().__init__(**given)
        self._rounds = rounds

    @property
    def runs(self) -> int:
        """Windows played to learn so far; their branches are not counted."""
        return self.saved.climb.update * self._rounds.windows

    @property
    def _form(self) -> NetworkForm:
        form = self.saved.form
        assert isinstance(form, NetworkForm)
        return form

    def _windows(self, count: int, stream: int) -> list[int]:
        """Training windows of this round, each as often as any other, if there are too few.

        Each kind of rounds has a stream of its own.
        """
        rng, there = self._rng(stream), self.budget.train_windows
        drawn: list[int] = rng.choice(there, min(count, there), replace=False).tolist()
        return np.resize(drawn, count).tolist()

    def _rng(self, stream: int) -> np.random.Generator:
        climb = self.saved.climb
        return np.random.default_rng([climb.seed, climb.update, stream])

    def _fitted(self, fit: Callable[..., float], found: list[Any], how: Fit) -> tuple[Any, float]:
        """(n,) the weights after `fit` of a policy to what was found; and what that gave."""
        climb = self.saved.climb
        seed = climb.seed + climb.update
        vector, gave = refitted(
            self._form, climb, lambda policy, masks: fit(policy, found, how, masks, seed)
        )
        if not np.isfinite(vector).all():
            raise self._stopped("the fit gave a weight that is not finite")
        return vector, gave

    def _branched(self, windows: list[int]) -> list[Contrasts]:
        """What is tried in these windows, by the shape of what was observed."""
        mean, rounds = self.saved.climb.mean, self._rounds
        assert rounds.sampling is not None
        given = self.source_spec, self._form, mean, rounds.sampling, rounds.points
        play = partial(play_branches, *given)
        # One by one: it takes seconds, and nobody waits for the slowest.
        seeds = self._rng(5).integers(1 << 32, size=len(windows))  # a window may come again
        tasks = list(zip(windows, seeds.tolist(), strict=True))
        return list(map(joined_contrasts, by_shape(self._found(play, tasks, windows))))

    def _end_round(self, mean: FloatArray) -> None:
        """What is saved changes at the end, as a whole."""
        climb = replace(moved(self.saved.climb, mean), average=mean)
        self.saved = replace(self.saved, climb=climb)


def _sizes(contrasts: list[Contrasts]) -> tuple[int, int]:
    """Branches and turns."""
    turns = [len(each.observations["jobs"]) for each in contrasts]
    return sum(map(len, contrasts)), sum(turns)


def apart(drawn: Sequence[int], count: int, search: int) -> tuple[list[int], list[int]]:
    """`count` windows to branch, and others, at most `search`, on which the step is chosen.

    `drawn`: `count` + `search` windows; where some are the same, those that there are are shared
    out in proportion, and branched again and again.
    """
    there = list(dict.fromkeys(drawn))
    cut = max(len(there) * count // (count + search), 1)
    return np.resize(there[:cut], count).tolist(), there[cut:] or there


class BranchTrainer(_RoundsTrainer[Teaching]):
    """Plays, branches, regresses, and goes as far as playing says."""

    @property
    def runs(self) -> int:
        """Windows played to learn so far; their branches are not counted."""
        played = self._rounds.windows + (1 + len(SHARES)) * self._rounds.search_windows
        return self.saved.climb.update * played

    def _update(self) -> None:
        climb, count = self.saved.climb, self._rounds.windows
        search = self._rounds.search_windows
        windows, searched = apart(self._windows(count + search, 2), count, search)
        contrasts = self._branched(windows)
        vector, explained = self._fitted(taught, contrasts, self._rounds.fit)
        share, ratio = self._share(vector, searched)
        log.info(
            "round %d: %d branches from %d turns; scores explain %.1f %% of their costs; %s",
            climb.update + 1, *_sizes(contrasts), 100 * explained,
            f"{share:g} of the way, which played {ratio:.4f} of staying"
            if share > 0
            else "no step was better than none",
        )  # fmt: skip
        self._end_round(climb.mean + share * (vector - climb.mean))

    def _share(self, vector: FloatArray, windows: list[int]) -> tuple[float, float]:
        """How far to go towards a vector: what plays best; 0: stay. And its JCT over staying's."""
        form, mean = self.saved.form, self.saved.climb.mean
        logs = {
            share: float(
                self.evaluator.windows(
                    self.source_spec, form.player(mean + share * (vector - mean)), TRAIN, windows
                ).mean()
            )
            for share in (0.0, *SHARES)
        }
        best = min(logs, key=lambda share: logs[share])
        return best, float(np.exp(logs[best] - logs[0.0]))


def rate_at(progress: float) -> float:
    """Of PPO's learning rate: 1, then falling linearly while `progress` goes on to 1."""
    fallen = max(progress - FALLS_FROM, 0.0) / (1.0 - FALLS_FROM)
    return 1.0 + (LAST_RATE - 1.0) * min(fallen, 1.0)


class PpoTrainer(_RoundsTrainer[Clipping]):
    """Plays, branches, climbs PPO's objective."""

    def _update(self) -> None:
        windows, how = self._windows(self._rounds.windows, 4), self._rounds.fit
        how = replace(how, learning_rate=how.learning_rate * rate_at(self._progress()))
        contrasts = self._branched(windows)
        vector, saves_s = self._fitted(improved, contrasts, how)
        log.info(
            "round %d: %d branches from %d turns; its new chances save %.0f job-seconds a turn",
            self.saved.climb.update + 1, *_sizes(contrasts), saves_s,
        )  # fmt: skip
        self.saved = replace(self.saved, climb=moved(self.saved.climb, vector))


@dataclass(frozen=True, eq=False)
class Teacher:
    """A network that is nothing but its prior."""

    form: NetworkForm
    vector: FloatArray


def distil_rounds(config: Mapping[str, Any]) -> Rounds[Fitting]:
    """As `branch_rounds`."""
    given = _given(config, DISTIL_RULES, "share")
    if given["share"] > 1:
        raise ConfigError(f"algo.share is {given['share']}; it is a share, at most 1")
    return Rounds(given["windows"], Fitting(**_fit(given)), share=given["share"])


def watch_window(
    source_spec: SourceSpec, teacher: Teacher, form: NetworkForm, vector: FloatArray, share: float,
    task: tuple[int, bool],
) -> tuple[Shown | None, bool]:  # fmt: skip
    """What was shown in a window of the part `train`, and whether its run failed.

    `task`: the window, and whether the teacher plays it itself.
    """
    source, (window, led) = source_of(source_spec), task
    # A copy: the next call of `policy` may write on the same network.
    shows = deepcopy(teacher.form.policy(teacher.vector))
    player = shows if led else form.policy(vector)
    simulator = source.simulator(TRAIN, window, source.window(TRAIN, window))
    try:
        return watch(player, shows, form.rules, simulator, share, window), False
    except (SimulationError, InvalidDecision):
        return None, True


class DistilTrainer(_RoundsTrainer[Fitting]):
    """Plays, is shown what its teacher would have done, and fits that."""

    def __init__(self, rounds: Rounds[Fitting], teacher: Teacher, **given: Any) -> None:
        """`given`: as `Trainer` takes it; what is saved has the form of a network."""
        super().__init__(rounds, **given)
        self._teacher = teacher

    def _update(self) -> None:
        shown = self._shown()
        vector, alike = self._fitted(distil, shown, self._rounds.fit)
        log.info(
            "round %d: %d turns; it chooses as its teacher at %.1f %% of them",
            self.saved.climb.update + 1, sum(map(len, shown)), 100 * alike,
        )  # fmt: skip
        self._end_round(vector)

    def _shown(self) -> list[Shown]:
        """What the teacher says of this round's windows, by the shape of what was observed."""
        climb, windows = self.saved.climb, self._windows(self._rounds.windows, 3)
        share, first = self._rounds.share, climb.update == 0
        play = partial(watch_window, self.source_spec, self._teacher, self._form, climb.mean, share)
        tasks = [(window, first and at % 2 == 0) for at, window in enumerate(windows)]
        return list(map(joined, by_shape(self._found(play, tasks, windows))))
