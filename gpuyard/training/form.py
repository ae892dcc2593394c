"""Who plays windows, and the vector of a search: weights of the linear score, or the network's.

Nothing here loads torch before a network plays.
"""

import json
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from gpuyard.launch.errors import CONF
from marl.env.layout import CodecRules
from sim.arrays import FloatArray
from sim.jobs import JobTable
from sim.report.job_times import mean_jct_s
from sim.scoring.linear_score import LinearScore, unlogged
from sim.scoring.weights import ALL_GROUPS, GROUPS, SUSPEND, Layer, ScoreWeights
from sim.simulator import Simulator

if TYPE_CHECKING:
    from marl.policy.pair_score import PairScorePolicy


WEIGHTS = CONF / "linear_weights"


def weights_path(name: object) -> Path | None:
    """The file of weights in conf/linear_weights, or of that path; None: there is none."""
    known = WEIGHTS / f"{name}.yaml"
    path = known if known.is_file() else Path(str(name))
    return path if path.is_file() else None


class WindowSource(Protocol):
    """What windows are played on."""

    @property
    def scheduler(self) -> LinearScore:
        """What plays linear scores, with other weights each time."""

    def window(self, part: str, index: int) -> JobTable:
        """One window of a part of the workload."""

    def simulator(self, part: str, index: int, jobs: JobTable) -> Simulator:
        """The jobs of window `index` of a part on its cluster, at time 0."""

    def windows(self, part: str) -> int | None:
        """How many windows a part has; None: there is one for every number."""

    def time_of(self, part: str, index: int) -> Hashable:
        """Equal for windows that are of one time, and so no independent evidence."""


class Player(Protocol):
    """Plays whole windows; it is sent to workers."""

    def jct_s(self, source: WindowSource, simulator: Simulator) -> float:
        """Mean JCT of the measured jobs of a fresh simulator; SimulationError, InvalidDecision."""


class VectorForm(Protocol):
    """How a vector is read: all that a search knows of what it learns."""

    def player(self, vector: FloatArray) -> Player:
        """Who plays as the vector says; ValueError: it has another length."""

    def arrays(self) -> Mapping[str, Any]:
        """Name -> array, for files; none holds objects."""


@dataclass(frozen=True, eq=False)
class ScorePlayer:
    """A linear score; its layer, if any, included."""

    weights: ScoreWeights

    def jct_s(self, source: WindowSource, simulator: Simulator) -> float:
        """As `Player.jct_s`."""
        return mean_jct_s(unlogged(simulator, source.scheduler.weighing(self.weights)))


SPEC, RULES, FIXED = "network_spec", "network_rules", "network_fixed"  # in files


@dataclass(frozen=True, eq=False)
class NetworkForm:
    """How a vector is read: what is searched of a policy's tensors, in the order that it has them.

    `gpuyard.training.network` says which those are, and makes vectors and policies.
    """

    spec: Mapping[str, Any]  # fields of `marl.policy.build.PolicySpec`
    rules: CodecRules
    fixed: FloatArray  # (K,) numbers of all other tensors, in the same order

    def player(self, vector: FloatArray) -> "NetworkPlayer":
        """Who plays as a vector says; another length is found out when it plays (ValueError)."""
        return NetworkPlayer(self, vector)

    def policy(self, vector: FloatArray) -> "PairScorePolicy":
        """The policy of a vector (n,), else ValueError; a process has one at a time, the last."""
        from marl.policy.build import PolicySpec, policy_of  # torch

        return policy_of(PolicySpec(**self.spec), vector, self.fixed)

    def arrays(self) -> dict[str, Any]:
        """For files."""
        return {
            SPEC: np.array(json.dumps(dict(self.spec))),
            RULES: np.array(json.dumps(asdict(self.rules))),
            FIXED: self.fixed,
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """The inverse of `arrays`; raises KeyError, ValueError or TypeError."""
        spec, rules = (json.loads(str(arrays[name])) for name in (SPEC, RULES))
        if not np.isfinite(arrays[FIXED]).all():
            raise ValueError(f"{FIXED} has a number that is not finite")
        return cls(spec, CodecRules(**rules), arrays[FIXED])


@dataclass(frozen=True, eq=False)
class NetworkPlayer:
    """A network that plays greedily, as `scheduler=marl` does, in compiled code."""

    form: NetworkForm
    vector: FloatArray

    def jct_s(self, source: WindowSource, simulator: Simulator) -> float:
        """As `Player.jct_s`."""
        from marl.training.episodes import play_greedily

        del source  # its scheduler is a linear score
        policy = self.form.policy(self.vector)
        (run,) = play_greedily(policy, [simulator], self.form.rules, name="marl")
        return mean_jct_s(run)


# How far members are from the mean.
SIGMA, SIGMA_BASE, SIGMA_SHARE = 0.4, 0.5, 0.25  # 0.4 (0.5 + 0.25 |w|) of a linear weight
SIGMA_FROM_ZERO = 2 * SIGMA_BASE
CLUSTER, SERVER, NONE = "cluster", "server", "none"
REACHES = (CLUSTER, SERVER, NONE)  # of a network's embeddings: values of graph.reach
SIGMA_INNER = 0.1
SIGMA_OUTER, SIGMA_OUTER_FROM_ZERO = 0.15, 0.3


@dataclass(frozen=True, eq=False)
class Standard:
    """What a feature is on the whole: inputs of a layer are (x - mean) / scale."""

    mean: FloatArray  # (F,)
    scale: FloatArray  # (F,) above 0


@dataclass(frozen=True, eq=False)
class Part:
    """One group of weights and its layer."""

    group: str  # of `sim.scoring.weights.ALL_GROUPS`
    units: int
    standard: Standard  # of its F features

    @property
    def features(self) -> int:
        """F."""
        return len(self.standard.mean)


@dataclass(frozen=True, eq=False)
class Form:
    """How a vector is read: linear weights of all groups, then inner, bias and outer of each."""

    parts: tuple[Part, ...]

    @property
    def linear(self) -> int:
        """How many linear weights there are."""
        return sum(part.features for part in self.parts)

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.linear + sum(part.units * (part.features + 2) for part in self.parts)

    def weights(self, vector: FloatArray) -> ScoreWeights:
        """The weights that a vector (size,) stands for; ValueError: it has another length."""
        if vector.shape != (self.size,):
            raise ValueError(f"a vector of shape {vector.shape}; expected ({self.size},)")
        found: dict[str, FloatArray | Layer] = {}
        at, layer_at = 0, self.linear
        for part in self.parts:
            found[part.group] = vector[at : at + part.features]
            at += part.features
            end = layer_at + part.units * (part.features + 2)
            found[f"{part.group}_layer"] = _layer(vector[layer_at:end], part)
            layer_at = end
        return ScoreWeights(**found)  # type: ignore[arg-type]

    def vector(self, weights: ScoreWeights) -> FloatArray:
        """The inverse of `weights`."""
        layers = [
            part
            for _, layer in _layers(weights)
            for part in (layer.inner.ravel(), layer.bias, layer.outer)
        ]
        return np.concatenate([linear_of(weights), *layers])

    def player(self, vector: FloatArray) -> ScorePlayer:
        """Who plays as a vector (size,) says; raises as `weights`."""
        return ScorePlayer(self.weights(vector))

    def arrays(self) -> dict[str, Any]:
        """For files."""
        return {
            "groups": np.array([part.group for part in self.parts]),
            "units": np.array([part.units for part in self.parts]),
            **{
                _key(part.group): np.array([part.standard.mean, part.standard.scale])
                for part in self.parts
            },
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """The inverse of `arrays`; raises KeyError, ValueError or TypeError."""
        named = zip(arrays["groups"].tolist(), arrays["units"].tolist(), strict=True)
        return cls(tuple(Part(name, units, Standard(*arrays[_key(name)])) for name, units in named))


def _key(group: str) -> str:
    return f"standard_{group}"


def _layers(weights: ScoreWeights) -> Iterator[tuple[str, Layer]]:
    for group in groups_of(weights):
        yield group, getattr(weights, f"{group}_layer")


def groups_of(weights: ScoreWeights) -> tuple[str, ...]:
    """The groups that the weights have."""
    return tuple(ALL_GROUPS if weights.suspend is not None else GROUPS)


def linear_of(weights: ScoreWeights) -> FloatArray:
    """(linear,) the linear weights of all groups."""
    return np.concatenate([getattr(weights, group) for group in groups_of(weights)])


def zero_weights(suspends: bool) -> ScoreWeights:
    """All weights 0; with those of suspensions, if any."""
    start, forward, suspend = (np.zeros(len(ALL_GROUPS[group])) for group in (*GROUPS, SUSPEND))
    return ScoreWeights(start, forward, suspend=suspend if suspends else None)


def _layer(vector: FloatArray, part: Part) -> Layer:
    units, features = part.units, part.features
    cut = units * features
    return Layer(
        mean=part.standard.mean,
        scale=part.standard.scale,
        inner=vector[:cut].reshape(units, features),
        bias=vector[cut : cut + units],
        outer=vector[cut + units :],
    )


def seen(form: Form, hide: Collection[str]) -> FloatArray:
    """(size,) 0 for weights that read a column named in `hide`, 1 for all others.

    Names are those of the features, or `pairs.NAME` of starts and `forwards.NAME` of forwards.

    Raises:
        ValueError: nothing that can be hidden has such a name.
    """
    names = {part.group: _hidden_as(part.group) for part in form.parts}
    known = {name for each in names.values() for pair in each for name in pair}
    if unknown := sorted(set(hide) - known):
        raise ValueError(f"hide has {unknown[0]!r}; it takes {', '.join(sorted(known))}")
    linear, layers = [], []
    for part in form.parts:
        kept = np.array([float(each.isdisjoint(hide)) for each in names[part.group]])
        linear.append(kept)
        layers += [np.tile(kept, part.units), np.ones(2 * part.units)]
    return np.concatenate([*linear, *layers])


def _hidden_as(group: str) -> list[set[str]]:
    """How `hide` may name each feature of a group: as it is, and behind what the agents call it."""
    agents = {"start": "pairs", "forward": "forwards"}.get(group, group)
    return [{name, f"{agents}.{name}"} for name in ALL_GROUPS[group]]


def form_of(weights: ScoreWeights) -> Form:
    """The form of weights that have layers already."""
    return Form(
        tuple(
            Part(group, layer.size, Standard(layer.mean, layer.scale))
            for group, layer in _layers(weights)
        )
    )


def first_vector(form: Form, linear: FloatArray, seed: int) -> FloatArray:
    """(size,) where a search begins: linear weights (linear,), layers that add nothing yet.

    Inner weights are drawn from N(0, 1 / features); the outer ones are 0.
    """
    rng = np.random.default_rng(seed)
    vectors = [linear]
    for part in form.parts:
        inner = rng.standard_normal(part.units * part.features) / part.features**0.5
        vectors += [inner, np.zeros(2 * part.units)]
    return np.concatenate(vectors)


def linear_sigmas(linear: FloatArray) -> tuple[FloatArray, float]:
    """(linear,) how far members are from linear weights, and how far from outer ones of a layer.

    Large weights are varied in larger steps.
    """
    if not np.any(linear):
        return np.full(len(linear), SIGMA_FROM_ZERO), SIGMA_OUTER_FROM_ZERO
    return SIGMA * (SIGMA_BASE + SIGMA_SHARE * np.abs(linear)), SIGMA_OUTER


def sigmas(form: Form, linear: FloatArray) -> FloatArray:
    """(size,) how far members are from the mean."""
    first, outer = linear_sigmas(linear)
    vectors = [first]
    for part in form.parts:
        inner = np.full(part.units * (part.features + 1), SIGMA_INNER)
        vectors += [inner, np.full(part.units, outer)]
    return np.concatenate(vectors)
