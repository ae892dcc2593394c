"""A policy network from plain numbers, so that a file of them and of weights is a policy.

Policy files hold weights and sizes only; loading runs no code. Some policies come along, by the
names that `checkpoint=` takes for them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from gnn.base import Encoder
from marl.env import SPEC, WEIGHTS, write_policy
from marl.env.actions import KINDS
from marl.env.layout import CodecRules
from marl.policy import SHIPPED
from marl.policy.pair_score import (
    NO_CRITIC,
    OWN_CRITIC,
    SHARED_CRITIC,
    PairScorePolicy,
    Policy,
    PolicyOfEach,
    divides,
    fill,
    networks_of,
    others,
    searched,
)
from sim.arrays import FloatArray
from sim.errors import GpuYardError
from sim.scoring import table

HIERARCHICAL, LINKED = "hierarchical", "linked"
# All that a policy file may name: reading one must run no other code. PyG, which some load, takes
# as long to load as torch.
ENCODERS = {
    HIERARCHICAL: "gnn.encoder.HierarchicalEncoder",
    "flat": "gnn.encoder.FlatEncoder",
    "mlp": "gnn.encoder.MlpEncoder",
    LINKED: "gnn.linked.LinkedEncoder",
}
NO_LINKS = (HIERARCHICAL, "flat", "mlp")  # known without loading them
CRITICS = (SHARED_CRITIC, OWN_CRITIC, NO_CRITIC)


@dataclass(frozen=True)
class PolicySpec:
    """Sizes of a `PairScorePolicy`; files of before leave out those that have a value here."""

    gpu_dim: int
    hidden_dim: int
    rounds: int
    head_dim: int
    prior_scale: float  # of the linear score that is added to all scores; 0: none
    encoder: str = HIERARCHICAL  # one of ENCODERS
    inner_rounds: int = 1  # of a linked encoder, inside servers
    suspends: bool = False  # it scores suspensions too (`rules.suspends`)
    start_units: int = 0  # hidden units of the prior's layers (`marl.policy.linear_prior`)
    forward_units: int = 0
    suspend_units: int = 0
    datacenter: bool = False  # it reads the GPUs of all partitions (`rules.datacenter`)
    critic: str = SHARED_CRITIC  # one of CRITICS; own: it judges by the own partition alone
    encoder_options: dict[str, Any] = field(default_factory=dict, hash=False)  # further parameters
    agents: int = 0  # that have a network each, or one a group; 0: any number share one
    groups: list[list[int]] = field(default_factory=list, hash=False)  # of `agents`; []: each alone

    def __post_init__(self) -> None:
        """Check names and groups."""
        for key, known in (("encoder", tuple(ENCODERS)), ("critic", CRITICS)):
            value = getattr(self, key)
            if value not in known:
                raise ValueError(f"{key} is {value!r}; it must be one of {', '.join(known)}")
        if self.groups and not divides(self.groups, self.agents):
            raise ValueError(
                f"groups: {self.groups}; it must have each of {self.agents} agents once"
            )

    @property
    def reads_links(self) -> bool:
        """Whether observations must hold links (`rules.links`)."""
        return reads_links(self.encoder)

    def as_dict(self) -> dict[str, Any]:
        """Plain form, for files; that of a shared network is as it was before there were others."""
        new = ("agents", "groups")
        return {key: value for key, value in asdict(self).items() if key not in new or value}


def encoder_name(target: str) -> str:
    """The name by which policy files know the class at `target`; PolicyFileError: by none."""
    for name, path in ENCODERS.items():
        if path == target:
            return name
    raise PolicyFileError(
        f"encoder._target_ is {target!r}, which policy files do not know; "
        f"use encoder={' or encoder='.join(ENCODERS)}, or add it to marl.policy.build.ENCODERS"
    )


def encoder_class(name: str) -> type[Encoder]:
    """One of ENCODERS."""
    module, _, found = ENCODERS[name].rpartition(".")
    return cast(type[Encoder], getattr(import_module(module), found))


def parameters_of(name: str) -> set[str]:
    """What the constructor of one of ENCODERS takes, and where it hands on the rest, its base's."""
    found = set[str]()
    for each in encoder_class(name).__mro__:
        if "__init__" in vars(each):
            takes = signature(vars(each)["__init__"]).parameters.values()
            found |= {one.name for one in takes if one.kind != one.VAR_KEYWORD}
            if all(one.kind != one.VAR_KEYWORD for one in takes):
                break
    return found - {"self"}


def reads_links(name: str) -> bool:
    """Whether one of ENCODERS reads the links of observations."""
    return name not in NO_LINKS and "edge_features" in parameters_of(name)


def build_policy(spec: PolicySpec) -> Policy:
    """Fresh weights, of one network, of one an agent, or of one a group."""
    if spec.agents:
        count = range(len(spec.groups) or spec.agents)
        return PolicyOfEach([build_network(spec) for _ in count], spec.groups)
    return build_network(spec)


def build_network(spec: PolicySpec) -> PairScorePolicy:
    """A network with fresh weights."""
    sizes = {
        "gpu_features": len(table.OfGpu),
        "server_features": len(table.OfServer),
        "gpu_dim": spec.gpu_dim,
        "hidden_dim": spec.hidden_dim,
        "rounds": spec.rounds,
    }
    if spec.reads_links:
        sizes |= {"edge_features": len(table.OfEdge), "link_features": len(table.OfLinks)}
    if spec.encoder not in NO_LINKS and "inner_rounds" in parameters_of(spec.encoder):
        sizes["inner_rounds"] = spec.inner_rounds
    return PairScorePolicy(
        encoder=encoder_class(spec.encoder)(**sizes, **spec.encoder_options),
        hidden=spec.head_dim,
        prior_scale=spec.prior_scale,
        critic=spec.critic,
        suspends=spec.suspends,
        prior_units=(spec.start_units, spec.forward_units, spec.suspend_units),
        datacenter=spec.datacenter,
    )


FORMAT = 4
BEST = "policy"  # in the folder of a training run


def policy_of(spec: PolicySpec, vector: FloatArray, fixed: FloatArray) -> PairScorePolicy:
    """The policy of a vector (n,) and of numbers (K,) of all other tensors.

    A process has one of a spec at a time, the last asked for.

    Raises:
        ValueError: vector or `fixed` has another length.
    """
    policy = _blank(spec)
    fill(list(searched(policy).values()), vector)
    fill(others(policy), fixed)
    return policy


@lru_cache(maxsize=2)
def _blank(spec: PolicySpec) -> PairScorePolicy:
    """All weights are written before it plays; building it takes longer than that."""
    return build_network(spec).eval()


# Names of the columns of each group, in a file's order.
Known = dict[type[table.Column], Sequence[str]]


class PolicyFileError(GpuYardError):
    """A policy folder is missing, truncated or foreign."""


def save_policy(folder: Path, policy: Policy, spec: PolicySpec, rules: CodecRules) -> None:
    """Write weights, then sizes, actions and columns; each file appears whole or not at all."""
    described = {
        "format": FORMAT, "policy": spec.as_dict(), "rules": asdict(rules),
        "actions": [kind.name for kind in KINDS if not kind.rule or getattr(rules, kind.rule)],
        "columns": {group.__name__: names for group, names in columns_of().items()},
    }  # fmt: skip
    write_policy(folder, policy.state_dict(), described)


def read_spec(folder: Path) -> tuple[PolicySpec, CodecRules]:
    """Sizes and rules of the policy in `folder`."""
    return _described(folder)[:2]


def _described(folder: Path) -> tuple[PolicySpec, CodecRules, Known]:
    """Sizes, rules, and the columns that it names; a file of before names none."""
    path = folder / SPEC
    if not path.is_file():
        found = _policy_near(folder)
        hint = "" if found is None else f"; did you mean {found}?"
        raise PolicyFileError(
            f"{path} is not there{hint}; give the folder that training wrote, with {SPEC} and "
            f"{WEIGHTS}, or a policy that comes along: {', '.join(SHIPPED)}"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise PolicyFileError(
                f"{path}: format {content['format']}, this version reads {FORMAT}"
            )
        spec, rules = PolicySpec(**content["policy"]), CodecRules(**content["rules"])
        _check_kinds(spec)
        _check_kinds(rules)
        actions = [kind.name for kind in KINDS]
        if unknown := [name for name in content.get("actions", ()) if name not in actions]:
            raise PolicyFileError(
                f"{path}: the policy has an action {unknown[0]!r}; here are {', '.join(actions)}"
            )
        return spec, rules, columns_of(dict(content.get("columns", {})))
    except (ValueError, KeyError, TypeError) as error:
        raise PolicyFileError(f"{path}: is not a policy description ({error})") from error


def _policy_near(folder: Path) -> Path | None:
    """A policy in or beside what was named: the best one of a run (`policy`) before its latest."""
    near = [folder / BEST, folder.parent / BEST, folder.parent.parent / BEST, folder.parent]
    near += [path.parent for path in sorted(folder.glob(f"*/{SPEC}"))]
    return next((path for path in near if (path / SPEC).is_file()), None)


def _check_kinds(values: PolicySpec | CodecRules) -> None:
    """Raise ValueError if a field is not of its kind; whole numbers are sizes.

    They are at least 1, or 0 where that is what a policy of before has.
    """
    for each in fields(values):
        value = getattr(values, each.name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits: dict[object, bool] = {
            bool: isinstance(value, bool),
            int: type(value) is int and value >= (each.default != 0),
            str: isinstance(value, str),  # the description itself knows the names
            dict[str, Any]: isinstance(value, dict),
            list[list[int]]: isinstance(value, list),
            float | None: value is None or number,
        }
        if not fits.get(each.type, number):
            kind = getattr(each.type, "__name__", each.type)
            raise ValueError(f"{each.name} is {value!r}, it must be a valid {kind}")


Group = type[table.Column] | None  # None: numbers that have no names here, as hidden units
# What the numbers that weights are for stand for, group by group: no line has more than one group
# that is in none above it.
INPUTS: tuple[tuple[str, tuple[Group, ...]], ...] = (
    (r"prior\.start(_layer\.(inner|mean|scale))?", (table.StartWeight,)),
    (r"prior\.forward(_to|_layer\.(inner|mean|scale))", (table.ForwardWeight,)),
    (r"prior\.suspend(_layer\.(inner|mean|scale))?", (table.SuspendWeight,)),
    (r"encoder\.gpu\.weight", (table.OfGpu,)),
    (r"encoder\.((sweeps\.0\.)?server_up|first)\.own\.weight", (table.OfServer, None)),  # links
    (r"start\.of_pair\.weight", (table.OfPair,)),
    (r"\w+\.of_row\.weight", (table.OfJob,)),
    (r"(query|seek)\.0\.weight", (table.OfJob, table.OfContext)),
    (r"(\w+\.of_state|wait\.0)\.weight", (None, table.OfContext, table.OfPeer)),
    (r"forward_to\.of_pair\.weight", (table.OfForward, table.OfPeer, None)),
    (r"suspend_for\.of_pair\.weight", (table.OfSuspension, table.OfPeer, None)),
)
CRITIC = "value.0.weight"
WHOSE = r"(agents\.\d+\.)?"  # before the names of what is an agent's own


class ColumnsError(ValueError):
    """Weights are of columns that are not here."""


def columns_of(file_names: Mapping[str, Sequence[str]] | None = None) -> Known:
    """The columns of every group that weights are for: today's, or those that a file names."""
    groups = dict.fromkeys(group for _, groups in INPUTS for group in groups if group)
    if file_names is None:
        return {group: [name.lower() for name in group.__members__] for group in groups}
    return {
        group: list(map(str, file_names[group.__name__]))
        for group in groups if group.__name__ in file_names
    }  # fmt: skip


def _fitted(weights: dict[str, Tensor], policy: Policy, known: Known) -> dict[str, Tensor]:
    """Weights by the names of their columns; new columns count for nothing.

    Args:
        weights: of a file; those of columns are replaced.
        policy: whose weights they are to be.
        known: what the file names. A file of before names none: it has the first ones, and what is
            not known is worked out from its sizes, and added.

    Raises:
        ColumnsError: a column is not here.
    """
    fresh, today = policy.state_dict(), columns_of()
    own = networks_of(policy)[0].critic == OWN_CRITIC
    critic: tuple[Group, ...] = (
        (None, table.OfContext) if own else (None, table.OfContext, table.OfPeer)
    )
    for pattern, groups in (*INPUTS, (re.escape(CRITIC), critic)):
        named = sum(len(today[group]) for group in groups if group)
        for name in fresh.keys() & weights.keys():
            if re.fullmatch(f"{WHOSE}({pattern})", name):
                unnamed = fresh[name].shape[-1] - named
                if unnamed < 0 or (unnamed and None not in groups):
                    continue  # a layer of somebody's own encoder has the name of one of ours
                gone = fresh[name].shape[-1] - weights[name].shape[-1]
                gone -= sum(len(today[each]) - len(known[each]) for each in groups if each in known)
                for group in groups:
                    if group and group not in known:
                        if gone < 0:
                            raise ColumnsError("it was trained on columns that are not here")
                        known[group] = today[group][: len(today[group]) - gone]
                        gone = 0
                fill = 1.0 if name.endswith("scale") else 0.0
                weights[name] = _by_name(weights[name], groups, known, fill)
    return weights


def _by_name(old: Tensor, groups: tuple[Group, ...], known: Known, fill: float) -> Tensor:
    """`old` (..., its columns) as (..., today's columns); `fill` for those that it lacks."""
    sizes = [len(known[group]) if group else 0 for group in groups]
    sizes = [size if group else old.shape[-1] - sum(sizes)
             for group, size in zip(groups, sizes, strict=True)]  # fmt: skip
    parts = []
    for group, part in zip(groups, old.split(sizes, -1), strict=True):
        if group is None:
            parts.append(part)
            continue
        places = {name.lower(): place for name, place in group.__members__.items()}
        if unknown := [name for name in known[group] if name not in places]:
            raise ColumnsError(f"it reads {unknown[0]!r} of {group.__name__}, which is not here")
        parts.append(part.new_full((*part.shape[:-1], len(group)), fill))
        parts[-1][..., [places[name] for name in known[group]]] = part
    return torch.cat(parts, -1)


def load_policy(folder: Path) -> tuple[Policy, PolicySpec, CodecRules]:
    """The network in `folder`.

    One that was trained before a column was there plays on as it was.
    """
    spec, rules, known = _described(folder)
    policy = build_policy(spec)
    path = folder / WEIGHTS
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
        policy.load_state_dict(_fitted(weights, policy, known))
    except ColumnsError as error:
        raise PolicyFileError(
            f"{path}: {error}; see sim/scoring/table.py: add it again, or train another policy"
        ) from error
    except Exception as error:  # torch raises many kinds for a truncated or foreign file
        raise PolicyFileError(
            f"{path}: cannot be read as this policy's weights ({error}); copy the folder anew, or "
            "train another"
        ) from error
    for name, weight in policy.state_dict().items():
        if not torch.isfinite(weight).all():
            raise PolicyFileError(f"{path}: {name} holds NaN or infinity; train another")
    return policy.eval(), spec, rules
