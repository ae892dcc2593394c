"""A policy network from plain numbers, so that a file of them and of weights is a policy."""

from dataclasses import asdict, dataclass
from typing import Any

from gnn.encoder import HierarchicalEncoder
from marl.codec.layout import GPU_FEATURES, SERVER_FEATURES
from marl.policy.pair_score import PairScorePolicy


@dataclass(frozen=True)
class PolicySpec:
    """Sizes of a `PairScorePolicy`."""

    gpu_dim: int
    hidden_dim: int
    rounds: int
    head_dim: int
    prior_scale: float  # of the linear score that is added to all scores; 0: none

    def as_dict(self) -> dict[str, Any]:
        """Plain form, for files."""
        return asdict(self)


def build_policy(spec: PolicySpec, num_racks: int) -> PairScorePolicy:
    """A network with fresh weights."""
    encoder = HierarchicalEncoder(
        gpu_features=GPU_FEATURES,
        server_features=SERVER_FEATURES,
        gpu_dim=spec.gpu_dim,
        hidden_dim=spec.hidden_dim,
        rounds=spec.rounds,
    )
    return PairScorePolicy(
        encoder=encoder, num_racks=num_racks, hidden=spec.head_dim, prior_scale=spec.prior_scale
    )
