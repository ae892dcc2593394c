"""Policies from vectors and back: which tensors are searched, and how far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpuyard.launch.errors import ConfigError
from gpuyard.training.form import CLUSTER, NONE, SERVER, SIGMA_INNER, NetworkForm, linear_sigmas
from gpuyard.training.strategies import Climb
from marl.env.layout import CodecRules
from marl.policy.build import PolicyFileError, PolicySpec, build_network, load_policy
from marl.policy.pair_score import PairScorePolicy, divides, fill, flat, others, searched, vector_of
from sim.arrays import FloatArray
from sim.scoring.table import FORWARD_OF_ROW, START_OF_PAIR, Column, OfPair
from sim.scoring.weights import ALL_GROUPS, ScoreWeights

LINEAR = ("prior.start", "prior.forward_to", "prior.suspend")
# What begins as 0: it is searched like the outer weights of a layer.
LAST = ("key.", "start.score.", "forward_to.score.", "suspend_for.score.", "wait.2.")
OUTER = tuple(f"prior.{group}_layer.outer" for group in ALL_GROUPS)
# Head, prior and its layer that read columns of `pairs` and `forwards`, and (weight, column) there.
READERS = (
    ("start.of_pair.weight", "prior.start", "prior.start_layer.inner", START_OF_PAIR),
    ("forward_to.of_pair.weight", "prior.forward_to", "prior.forward_layer.inner", FORWARD_OF_ROW),
)
ENCODER = "encoder."
HEARD = ".server_down.neighbour.weight"  # of every sweep: of other servers, by rack and cluster
PRIOR_SCALE = 1.0
EACH = "each"  # of policy.networks


def groups_of(networks: Any, agents: int) -> list[list[int]]:
    """Agents of each network by `policy.networks`, which is not null; empty: each has its own.

    Raises:
        ConfigError: it is none of these; names the value and what it must be.
    """
    if networks == EACH:
        return []
    if not divides(networks, agents):
        raise ConfigError(
            f"policy.networks is {networks!r}; it must be null, {EACH}, or lists in which each of "
            f"{agents} agents, from 0, stands once, like [[0,1],[2,3]]"
        )
    groups: list[list[int]] = networks
    return groups


@dataclass(frozen=True)
class Ablation:
    """What a network does not read: such weights are 0 and stay so, the prior's too.

    Columns of `pairs` and `forwards` are named in `hide`. `reach` is `cluster`; `server`: servers'
    embeddings do not depend on other servers; `none`: there are no embeddings, columns alone.
    """

    hide: Sequence[str] = ()
    reach: str = CLUSTER


NOTHING = Ablation()


def first_network(
    sizes: Mapping[str, Any],  # gpu_dim, hidden_dim and head_dim
    rules: CodecRules,
    prior: ScoreWeights,
    seed: int,
    without: Ablation = NOTHING,
) -> tuple[NetworkForm, FloatArray, FloatArray]:
    """Form, first vector and sigmas, (n,) each, of a network that plays as its prior at first.

    Weights are drawn as torch draws them, from `seed`; last layers are 0.

    Raises:
        ValueError: the prior suspends and the rules do not, or the other way round; or nothing that
            can be hidden has such a name.
    """
    spec = PolicySpec(
        **sizes, rounds=1, prior_scale=PRIOR_SCALE, suspends=rules.suspends,
        datacenter=rules.datacenter,
        **{f"{group}_units": getattr(prior, f"{group}_layer").size for group in ALL_GROUPS},
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = build_network(spec)
    assert policy.prior is not None
    policy.prior.take(prior)
    return _begun(policy, spec, rules, without)


def network_in(
    folder: Path, without: Ablation = NOTHING
) -> tuple[NetworkForm, FloatArray, FloatArray]:
    """The same of the policy in a folder, as it is but for what is hidden.

    Raises:
        PolicyFileError: no policy can be read there.
        ValueError: nothing that can be hidden has such a name.
    """
    policy, spec, rules = load_policy(folder)
    if not isinstance(policy, PairScorePolicy):
        raise PolicyFileError(f"{folder}: has a network an agent; `learn` begins with a shared one")
    return _begun(policy, spec, rules, without)


def _begun(
    policy: PairScorePolicy, spec: PolicySpec, rules: CodecRules, without: Ablation
) -> tuple[NetworkForm, FloatArray, FloatArray]:
    seen = _seen(policy, without)
    form = NetworkForm(spec.as_dict(), rules, flat(others(policy)))
    return form, vector_of(policy) * seen, _sigmas(policy) * seen


def shaped(like: Mapping[str, Tensor], numbers: FloatArray) -> dict[str, Tensor]:
    """Numbers (n,), one for each that is searched, in tensors as `searched` gives them."""
    found = {name: torch.empty_like(each) for name, each in like.items()}
    fill(list(found.values()), numbers)
    return found


def refitted(
    form: NetworkForm, climb: Climb, fit: Callable[[PairScorePolicy, dict[str, Tensor]], float]
) -> tuple[FloatArray, float]:
    """The vector (n,) after `fit` has changed the policy of the mean, and what `fit` returns.

    `fit` changes a policy in place, given name of a parameter -> 1 where it may, 0 where not:
    where `climb` has a sigma of 0.
    """
    torch.set_num_threads(1)
    policy = form.policy(climb.mean)
    masks = shaped(searched(policy), (climb.sigma > 0).astype(np.float64))
    said = fit(policy, masks)
    return vector_of(policy), said


def _sigmas(policy: PairScorePolicy) -> FloatArray:
    """(n,) how far members are from the mean, as for linear scores."""
    tensors = searched(policy)
    names = [name for name in LINEAR if name in tensors]
    first, outer = linear_sigmas(flat([tensors[name] for name in names]))
    ends = np.cumsum([tensors[name].numel() for name in names])[:-1]
    known = dict(zip(names, np.split(first, ends), strict=True))
    parts = []
    for name, each in tensors.items():
        sigma = outer if name.startswith(LAST) or name in OUTER else SIGMA_INNER
        parts.append(known.get(name, np.full(each.numel(), sigma)))
    return np.concatenate(parts)


def _seen(policy: PairScorePolicy, without: Ablation) -> FloatArray:
    """(n,) 0 for weights that read what `without` takes away, 1 for all others."""
    masks = {name: np.ones(tuple(each.shape)) for name, each in searched(policy).items()}
    names = set[str]().union(*(_names(column) for *_, pairs in READERS for _, column in pairs))
    if unknown := sorted(set(without.hide) - names):
        told = f"takes {', '.join(sorted(names))}; without messages is graph.reach={SERVER}"
        raise ValueError(f"hide has {unknown[0]!r}; it {told}")
    for head, linear, layer, pairs in READERS:
        for weight, column in pairs:
            if not _names(column).isdisjoint(without.hide):
                masks[head][:, column] = 0.0
                masks[linear][weight] = 0.0
                if layer in masks:
                    masks[layer][:, weight] = 0.0
    for name, mask in masks.items():
        unheard = without.reach == SERVER and name.endswith(HEARD)
        if unheard or (without.reach == NONE and name.startswith(ENCODER)):  # embeddings are then 0
            mask[:] = 0.0
    return np.concatenate([each.ravel() for each in masks.values()])


def _names(column: Column) -> set[str]:
    """Of a column in `hide`: its own, which two arrays may have, and with its array's before it."""
    name = column.name.lower()
    return {name, f"{'pairs' if isinstance(column, OfPair) else 'forwards'}.{name}"}
