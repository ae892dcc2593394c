"""The pair-score policy: which waiting job, on which server, shared or not; forward; or wait."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gnn.base import ClusterBatch, Encoder, Links
from marl.env.actions import MODES, TIE
from marl.env.layout import Observation
from marl.policy.linear_prior import LinearPrior
from sim.arrays import FloatArray
from sim.scoring.table import (
    CONTEXT_OF_OTHERS,
    OfContext,
    OfForward,
    OfGpu,
    OfJob,
    OfPair,
    OfPeer,
    OfServer,
    OfSuspension,
)


def stack(observations: Sequence[Observation]) -> dict[str, torch.Tensor]:
    """Tensors with a leading batch dimension, one row an observation."""
    return {
        key: torch.from_numpy(np.stack([o[key] for o in observations])) for key in observations[0]
    }


class JointScore(nn.Module):
    r"""Scores of (row, column) pairs from features of the pair, the row and the state.

    .. math:: s_{rc} = v \cdot \mathrm{ReLU}(A x_{rc} + B y_r + C z + b)

    The first layer is split by source, so that rows and state are not repeated per pair.

    Args:
        pair: features of a pair. row: features of a row. state: features of the state.
        hidden: width between the layers.

    Shapes:
        input: pairs (B, R, *, pair), rows (B, R, row), state (B, state)
        output: (B, R, *)
    """

    def __init__(self, *, pair: int, row: int, state: int, hidden: int) -> None:
        """Draw weights; the last layer starts small, so that first choices are near uniform."""
        super().__init__()
        self.of_pair = nn.Linear(pair, hidden)
        self.of_row = nn.Linear(row, hidden, bias=False)
        self.of_state = nn.Linear(state, hidden, bias=False)
        self.score = nn.Linear(hidden, 1)
        nn.init.uniform_(self.score.weight, -0.01, 0.01)
        nn.init.zeros_(self.score.bias)

    def forward(self, pairs: Tensor, rows: Tensor, state: Tensor) -> Tensor:
        """Scores of every pair."""
        shared = self.of_row(rows) + self.of_state(state).unsqueeze(1)  # (B, R, hidden)
        for _ in range(pairs.dim() - 3):
            shared = shared.unsqueeze(-2)
        return self.score(torch.relu(self.of_pair(pairs) + shared)).squeeze(-1)


def two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """ReLU network with one hidden layer."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


SHARED_CRITIC, OWN_CRITIC, NO_CRITIC = "shared", "own", "none"
OWN_CONTEXT = [column for column in OfContext if column not in CONTEXT_OF_OTHERS]
UNREAD = ("value.", "encoder.rack_norm.")  # parameters that who plays does not read
MASKED = -1e9  # not -inf: entropies and divergences stay finite


def best_action(logits: Tensor) -> list[int]:
    """(B,) the greedy actions; the first of those that tie.

    Starts on equal servers have equal scores but for rounding, which depends on the batch: without
    a tolerance one and the same policy would play differently alone and in a batch.
    """
    return torch.round(logits, decimals=TIE).argmax(-1).tolist()


class Scores(NamedTuple):
    """What the network says of B observations."""

    logits: Tensor  # (B, actions), masked
    state: Tensor  # (B, state_dim) what a critic judges


class PairScorePolicy(nn.Module):
    r"""Scores every (job, server, mode), every (job, peer) and *wait*, for any number of each.

    .. math:: s_{jsm} = q_j \cdot W_m e_s / \sqrt{H} + f(x_{jsm}, x_j, z)

    with q the query of job j, e_s the server's embedding from the encoder, x the
    features of the observation and z the state (partition embedding, own context, mean of peers).
    Where it is shown the whole datacenter, one encoder embeds every partition, and what goes to
    another (forwards, suspensions there) also reads of partition m its embedding and

    .. math:: b_{jm} = \ln \sum_{s \in m} \exp(q'_j \cdot W' e_s / \sqrt{H})

    Forwards and *wait* have scores of their own; one masked categorical covers all. No weight
    depends on the number of servers, jobs or agents. The critic reads z.

    Source: the pair score of pointer-style schedulers (Decima; SCARL) over the hierarchy of
    Zhao & Wu (TNSM 2021/22); which features matter: docs/agents.md.

    Shapes:
        input: observation tensors as in `Layout.shapes`, with a leading batch dimension
        output: `Scores`
    """

    def __init__(
        self,
        *,
        encoder: Encoder,
        hidden: int,
        prior_scale: float,
        critic: str = SHARED_CRITIC,
        suspends: bool = False,
        prior_units: Sequence[int] = (0, 0, 0),
        datacenter: bool = False,
    ) -> None:
        """`hidden`: width of the heads.

        With `prior_scale` above 0 that times the linear score is added to all scores, and the
        network's own begin at zero: it learns what to add. An own critic is not shown what the
        state says of other partitions; without one every value is 0. With `suspends` it scores
        suspensions. `prior_units`: of the prior's layers (`LinearPrior`). `datacenter`:
        observations hold the GPUs of all partitions (`rules.datacenter`).
        """
        super().__init__()
        self.prior = LinearPrior(suspends, prior_units) if prior_scale > 0.0 else None
        self.prior_scale = prior_scale
        self.encoder = encoder
        encoder.rack_norm.requires_grad_(False)  # nobody reads the racks' embeddings
        width = encoder.hidden_dim
        state = width + len(OfContext) + len(OfPeer)
        self.query = two_layers(len(OfJob) + len(OfContext), hidden, width)
        self.key = nn.Linear(width, MODES * width)
        nn.init.uniform_(self.key.weight, -0.01, 0.01)
        self.start = JointScore(pair=len(OfPair), row=len(OfJob), state=state, hidden=hidden)
        known = len(OfPeer) + (width + 1 if datacenter else 0)  # what is known of a partition
        self.forward_to = JointScore(
            pair=len(OfForward) + known, row=len(OfJob), state=state, hidden=hidden
        )
        self.suspend_for = None
        if suspends:
            pair = len(OfSuspension) + known
            self.suspend_for = JointScore(pair=pair, row=len(OfJob), state=state, hidden=hidden)
        self.wait = two_layers(state, hidden, 1)
        self.seek = two_layers(len(OfJob) + len(OfContext), hidden, width) if datacenter else None
        self.found = nn.Linear(width, width, bias=False) if datacenter else None
        self.critic, own = critic, width + len(OWN_CONTEXT)
        judged = own if critic == OWN_CRITIC else state
        self.value = None if critic == NO_CRITIC else two_layers(judged, hidden, 1)
        if self.prior is not None:
            last = [self.key, self.start.score, self.forward_to.score, self.wait[-1]]
            last += [] if self.suspend_for is None else [self.suspend_for.score]
            for weights in (each for layer in last for each in layer.parameters()):
                nn.init.zeros_(weights)

    def forward(self, observation: dict[str, Tensor]) -> Scores:
        """Masked logits and the state."""
        state, servers = self.encode(observation)
        jobs, context = observation["jobs"], observation["context"]
        batch = jobs.shape[0]
        window = jobs.shape[1]
        start = self.start(observation["pairs"], jobs, state)  # (B, W, S, MODES)
        asked = torch.cat([jobs, context.unsqueeze(1).expand(-1, window, -1)], -1)
        query = self.query(asked)
        key = self.key(servers).unflatten(-1, (MODES, -1))  # (B, S, MODES, H)
        start = start + torch.einsum("bwh,bsmh->bwsm", query, key) / query.shape[-1] ** 0.5
        peers = observation["peers"].unsqueeze(1).expand(-1, window, -1, -1)
        if self.seek is not None:
            peers = torch.cat([peers, *self._elsewhere(observation, self.seek(asked))], -1)
        sends = torch.cat([observation["forwards"], peers], -1)
        scores = [start, self.forward_to(sends, jobs, state)]  # and (B, W, M): as the actions are
        if self.suspend_for is not None:
            rooms = torch.cat([observation["suspensions"], peers], -1)
            scores.append(self.suspend_for(rooms, jobs, state))  # (B, W, M)
        if self.prior is not None:
            priors = [each for each in self.prior(observation) if each is not None]
            pairs = zip(scores, priors, strict=True)
            scores = [own + self.prior_scale * known for own, known in pairs]
        logits = torch.cat([*(each.reshape(batch, -1) for each in scores), self.wait(state)], -1)
        return Scores(logits.masked_fill(observation["action_mask"] == 0, MASKED), state)

    def encode(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """State (B, state_dim) and server embeddings (B, S, H)."""
        gpus, servers = observation["gpus"], observation["servers"]
        embeddings = self.encoder(
            ClusterBatch(
                x_gpu=gpus,
                gpu_mask=gpus[..., OfGpu.THERE] > 0,
                x_server=servers,
                server_mask=servers[..., OfServer.THERE] > 0,
                server_rack=observation["server_rack"],
                num_racks=_racks(observation["server_rack"]),
                links=_links(observation, gpus.shape[2]),
            )
        )
        peers = observation["peers"]
        present = peers[..., OfPeer.THERE, None]
        others = (peers * present).sum(1) / present.sum(1).clamp(min=1.0)
        state = torch.cat([embeddings.cluster, observation["context"], others], -1)
        return state, embeddings.server

    def _elsewhere(self, observation: dict[str, Tensor], sought: Tensor) -> tuple[Tensor, Tensor]:
        """Partitions' embeddings (B, W, M, H), and how well what is `sought` (B, W, H) is found.

        The second is (B, W, M, 1), and 0 where a partition has no server.
        """
        assert self.found is not None
        batch, partitions = observation["all_servers"].shape[:2]
        gpus, servers, racks = (
            observation[key].flatten(0, 1) for key in ("all_gpus", "all_servers", "all_racks")
        )
        present = servers[..., OfServer.THERE] > 0  # (B * M, S)
        of_all = self.encoder(
            ClusterBatch(gpus, gpus[..., OfGpu.THERE] > 0, servers, present, racks, _racks(racks))
        )
        keys = self.found(of_all.server).unflatten(0, (batch, partitions))  # (B, M, S, H)
        match = torch.einsum("bwh,bmsh->bwms", sought, keys) / sought.shape[-1] ** 0.5
        present = present.unflatten(0, (batch, 1, partitions))  # (B, 1, M, S)
        best = match.masked_fill(~present, MASKED).logsumexp(-1, keepdim=True)
        best = torch.where(present.any(-1, keepdim=True), best, 0.0)
        embedded = of_all.cluster.unflatten(0, (batch, 1, partitions))
        return embedded.expand(-1, sought.shape[1], -1, -1), best

    def values(self, state: Tensor) -> Tensor:
        """(B,) the critic's judgement; 0 without one."""
        if self.value is None:
            return state.new_zeros(len(state))
        judged = self._own(state) if self.critic == OWN_CRITIC else state
        return self.value(judged).squeeze(-1)

    def _own(self, state: Tensor) -> Tensor:
        """What the state (B, state_dim) says of the own partition."""
        cluster, context, _ = state.split(
            [self.encoder.hidden_dim, len(OfContext), len(OfPeer)], -1
        )
        return torch.cat([cluster, context[..., OWN_CONTEXT]], -1)


class PolicyOfEach(nn.Module):
    """A network for each agent, or group of them: a turn is scored by that of its agent.

    That is the agent whose row of `peers` is marked as its own. Networks share no weight, so each
    learns from its agents' turns alone, though batches hold those of all.

    Shapes:
        as `PairScorePolicy`; the last column of the state is the network
    """

    def __init__(
        self, networks: Sequence[PairScorePolicy], groups: Sequence[Sequence[int]] = ()
    ) -> None:
        """Network n is of the agents `groups[n]`, of agent n where there are no groups."""
        super().__init__()
        self.networks = list(networks)
        self.agents = nn.ModuleList(self.networks)
        of_agent = {agent: n for n, group in enumerate(groups) for agent in group}
        numbers = [of_agent[agent] for agent in sorted(of_agent)] or list(range(len(networks)))
        self.register_buffer("network_of", torch.tensor(numbers), persistent=False)

    def forward(self, observation: dict[str, Tensor]) -> Scores:
        """Masked logits and the state."""
        who = self._who(observation)
        logits, state = self._each(who, lambda network, rows: network(_rows(observation, rows)))
        return Scores(logits, torch.cat([state, who.unsqueeze(-1)], -1))

    def encode(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """State (B, state_dim) and server embeddings (B, S, H)."""
        who = self._who(observation)
        state, servers = self._each(who, lambda one, rows: one.encode(_rows(observation, rows)))
        return torch.cat([state, who.unsqueeze(-1)], -1), servers

    def values(self, state: Tensor) -> Tensor:
        """(B,) the judgement of each network's own critic."""
        who = state[:, -1]
        (value,) = self._each(who, lambda one, rows: (one.values(state[rows, :-1]),))
        return value

    def _each(
        self, who: Tensor, judge: Callable[[PairScorePolicy, Tensor], tuple[Tensor, ...]]
    ) -> list[Tensor]:
        """What `judge` says of each network's rows, in the order of `who` (B,)."""
        rows = [torch.nonzero(who == n).squeeze(-1) for n in range(len(self.networks))]
        shares = zip(self.networks, rows, strict=True)
        judged = [judge(network, own) for network, own in shares if len(own) > 0]
        order = torch.cat(rows).argsort()
        return [torch.cat(parts)[order] for parts in zip(*judged, strict=True)]

    def _who(self, observation: dict[str, Tensor]) -> Tensor:
        """(B,) the networks of the agents that see B observations."""
        agent = observation["peers"][..., OfPeer.OWN].argmax(-1)
        return self.get_buffer("network_of")[agent]


def divides(groups: object, agents: int) -> bool:
    """Whether it is a list of lists in which each agent stands once, and no list is empty."""
    if not (isinstance(groups, list) and all(isinstance(group, list) for group in groups)):
        return False
    members = [agent for group in groups for agent in group]
    if not (all(groups) and all(type(agent) is int for agent in members)):
        return False
    return sorted(members) == list(range(agents))


def _rows(observation: dict[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
    return {key: value[rows] for key, value in observation.items()}


Policy = PairScorePolicy | PolicyOfEach


def networks_of(policy: Policy) -> list[PairScorePolicy]:
    """One that all agents share, or one an agent or group."""
    return policy.networks if isinstance(policy, PolicyOfEach) else [policy]


def _racks(server_rack: Tensor) -> int:
    """How many racks the partition with most of them has, of (B, S) racks numbered from 0."""
    return int(server_rack.max()) + 1


def _links(observation: dict[str, Tensor], num_gpus: int) -> Links | None:
    """The links that the observation holds, if it holds any."""
    ends = observation.get("link_ends")
    if ends is None:
        return None
    hubs = max(int(ends.max()) + 1 - num_gpus, 0)
    return Links(ends.long(), observation["link_edges"], hubs, observation["server_links"])


def searched(policy: PairScorePolicy) -> dict[str, Tensor]:
    """Name -> tensor of what who plays reads, as the policy has them, not copies."""
    return {
        name: parameter.data
        for name, parameter in policy.named_parameters()
        if not name.startswith(UNREAD)
    }


def others(policy: PairScorePolicy) -> list[Tensor]:
    """All other tensors."""
    names = searched(policy)
    return [each for name, each in policy.state_dict().items() if name not in names]


def vector_of(policy: PairScorePolicy) -> FloatArray:
    """(n,) numbers of what is searched."""
    return flat(list(searched(policy).values()))


def flat(tensors: Sequence[Tensor]) -> FloatArray:
    """(n,) all numbers of tensors, one after the other."""
    return np.concatenate([np.zeros(0), *(each.double().numpy().ravel() for each in tensors)])


def fill(tensors: Sequence[Tensor], numbers: FloatArray) -> None:
    """The inverse of `flat`, in place; ValueError: there are more or fewer numbers."""
    size = sum(each.numel() for each in tensors)
    if numbers.shape != (size,):
        raise ValueError(f"a vector of shape {numbers.shape}; expected ({size},)")
    at = 0
    for each in tensors:
        part = numbers[at : at + each.numel()]
        each.copy_(torch.from_numpy(np.ascontiguousarray(part)).view(each.shape))
        at += each.numel()
