"""A policy network from plain numbers, so that a file of them and of weights is a policy."""

from dataclasses import asdict, dataclass
from typing import Any

from gnn.base import Encoder
from gnn.encoder import FlatEncoder, HierarchicalEncoder, MlpEncoder
from gnn.linked import LinkedEncoder
from marl.policy.pair_score import PairScorePolicy
from sim.scoring.table import OfEdge, OfGpu, OfLinks, OfServer

HIERARCHICAL, LINKED = "hierarchical", "linked"
# All that a policy file may name: reading one must run no other code.
ENCODERS: dict[str, type[Encoder]] = {
    HIERARCHICAL: HierarchicalEncoder,
    "flat": FlatEncoder,
    "mlp": MlpEncoder,
    LINKED: LinkedEncoder,
}
SHARED_CRITIC, OWN_CRITIC = "shared", "own"
CRITICS = (SHARED_CRITIC, OWN_CRITIC)


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
    critic: str = SHARED_CRITIC  # own: it judges by the own partition alone

    def __post_init__(self) -> None:
        """Check the names."""
        for key, known in (("encoder", tuple(ENCODERS)), ("critic", CRITICS)):
            if getattr(self, key) not in known:
                raise ValueError(
                    f"{key} is {getattr(self, key)!r}; it must be one of {', '.join(known)}"
                )

    @property
    def reads_links(self) -> bool:
        """Whether observations must hold links (`rules.links`)."""
        return self.encoder == LINKED

    def as_dict(self) -> dict[str, Any]:
        """Plain form, for files."""
        return asdict(self)


def encoder_name(target: str) -> str:
    """The name under which policy files know the class at the dotted path `target`.

    Raises:
        ValueError: they know none of this path.
    """
    for name, encoder in ENCODERS.items():
        if f"{encoder.__module__}.{encoder.__qualname__}" == target:
            return name
    raise ValueError(
        f"encoder._target_ is {target!r}, which policy files do not know; "
        f"use encoder={' or encoder='.join(ENCODERS)}, or add it to marl.policy.build.ENCODERS"
    )


def build_policy(spec: PolicySpec, num_racks: int) -> PairScorePolicy:
    """A network with fresh weights."""
    sizes = {
        "gpu_features": len(OfGpu),
        "server_features": len(OfServer),
        "gpu_dim": spec.gpu_dim,
        "hidden_dim": spec.hidden_dim,
        "rounds": spec.rounds,
    }
    if spec.reads_links:
        sizes |= {
            "edge_features": len(OfEdge),
            "link_features": len(OfLinks),
            "inner_rounds": spec.inner_rounds,
        }
    return PairScorePolicy(
        encoder=ENCODERS[spec.encoder](**sizes),
        num_racks=num_racks,
        hidden=spec.head_dim,
        prior_scale=spec.prior_scale,
        own_critic=spec.critic == OWN_CRITIC,
        suspends=spec.suspends,
        prior_units=(spec.start_units, spec.forward_units, spec.suspend_units),
        datacenter=spec.datacenter,
    )
