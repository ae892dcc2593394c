"""The compiled network from the torch module: the same weights, as they are now."""

from typing import Any

import numpy as np
from torch import Tensor, nn

from gnn.base import Encoder, Sweep
from gnn.base import Update as TorchUpdate
from gnn.encoder import HierarchicalEncoder
from marl.env.actions import MODES
from marl.env.layout import CodecRules, Layout
from marl.policy.build import PolicySpec, encoder_class
from marl.policy.linear_prior import LinearPrior, PriorLayer
from marl.policy.network import Net
from marl.policy.pair_score import JointScore, PairScorePolicy, Policy, PolicyOfEach
from marl.policy.parts import Joint, Norm, Prior, Two, Update
from sim.arrays import FloatArray
from sim.scoring import table
from sim.scoring.weights import Layer, Units, no_layer, units_of

STEPS = ("server_up", "rack_up", "cluster_up", "rack_down", "server_down")
# Weights of the prior, and what they are called there.
GROUPS = {
    "start": (table.StartWeight, "start"),
    "forward": (table.ForwardWeight, "forward_to"),
    "suspend": (table.SuspendWeight, "suspend"),
}


def why_torch(spec: PolicySpec, rules: CodecRules) -> str:
    """Why a policy of these sizes and rules is not compiled; empty if it is."""
    if spec.agents:
        return "agents have several networks"
    return _why_torch(encoder_class(spec.encoder), spec.rounds, rules.links)


def _why_torch(encoder: type[Encoder], rounds: int, links: bool) -> str:
    """Compiled is the hierarchical encoder with one round, where observations hold no links."""
    if encoder is not HierarchicalEncoder or links:
        return f"{encoder.__name__} stays torch's"
    return "" if rounds == 1 else f"encoder.rounds is {rounds}; one is compiled"


def net_of(policy: Policy, layout: Layout) -> Net | None:
    """The network for observations of this layout; None: it is not compiled (`why_torch`)."""
    if isinstance(policy, PolicyOfEach):
        return None
    encoder = policy.encoder
    rounds = len(encoder.sweeps) if isinstance(encoder, HierarchicalEncoder) else 0
    if _why_torch(type(encoder), rounds, layout.edges > 0):
        return None
    assert isinstance(encoder, HierarchicalEncoder)
    sweep = encoder.sweeps[0]
    assert isinstance(sweep, Sweep)
    key, width = policy.key, encoder.hidden_dim
    hidden = policy.start.of_row.weight.shape[0]
    steps: dict[str, Any] = {name: _update(getattr(sweep, name)) for name in STEPS}
    return Net(
        gpu=_linear(encoder.gpu),
        **steps,
        server_norm=_norm(encoder.server_norm),
        cluster_norm=_norm(encoder.cluster_norm),
        query=_two(policy.query),
        key=_linear(key),
        start=_joint(policy.start),
        forward_to=_joint(policy.forward_to),
        suspend_for=_joint(policy.suspend_for, policy.start),
        wait=_two(policy.wait),
        seek=_two(policy.seek, policy.query),
        found=np.zeros((0, width)) if policy.found is None else _weight(policy.found),
        prior=_prior(policy.prior, policy.prior_scale),
        speaks=_speaks(policy),
        **_scratch(layout, width, encoder.gpu.weight.shape[0], hidden),
    )


def _speaks(policy: PairScorePolicy) -> bool:
    """Whether the network adds anything to the prior: beside one its ends begin as zeros."""
    heads = (policy.start, policy.forward_to, policy.suspend_for)
    ends = [policy.key, policy.wait[2], *(head.score for head in heads if head is not None)]
    return any(bool(each.any()) for end in ends for each in end.parameters())


def _scratch(layout: Layout, width: int, gpu_width: int, hidden: int) -> dict[str, Any]:
    s, r, state = layout.servers, layout.racks, width + len(table.OfContext) + len(table.OfPeer)
    graphs = layout.graphs
    pair = (
        max(len(table.OfForward), len(table.OfSuspension))
        + len(table.OfPeer)
        + (width + 1 if graphs else 0)
    )
    shapes = {
        "server": (s, width), "lower": (s, width), "keys": (s, MODES * width), "rack": (r, width),
        "place": (graphs, s, width), "embedded": (graphs, width), "sought": (width,),
        "rack_down_state": (r, width), "cluster": (width,), "gpu_state": (gpu_width,),
        "gpu_mean": (gpu_width,), "mean": (width,), "state": (state,),
        "asked": (len(table.OfJob) + len(table.OfContext),), "query_state": (width,),
        "start_shared": (hidden,), "pair_shared": (hidden,), "of_state": (3, hidden),
        "hidden": (hidden,), "pair": (pair,), "one": (1,),
    }  # fmt: skip
    return {
        "in_rack": np.zeros(r, dtype=np.int64),
        "routine": np.zeros(3, dtype=np.int64),
        **{name: np.zeros(shape) for name, shape in shapes.items()},
    }


def _array(values: Tensor) -> FloatArray:
    return np.ascontiguousarray(values.detach().cpu().numpy(), dtype=np.float64)


def _weight(layer: nn.Linear) -> FloatArray:
    """(I, O): inputs are the outer loop of compiled code."""
    return np.ascontiguousarray(_array(layer.weight).T)


def _linear(layer: nn.Linear) -> Update:
    """W x + b: x as a node's own state, of one without neighbours."""
    outputs = layer.weight.shape[0]
    return Update(_weight(layer), np.zeros((0, outputs)), _array(layer.bias))


def _update(step: TorchUpdate) -> Update:
    outputs = step.neighbour.weight.shape[0]
    own = np.zeros((0, outputs)) if step.own is None else _weight(step.own)
    return Update(own, _weight(step.neighbour), _array(step.neighbour.bias))


def _norm(layer: nn.LayerNorm) -> Norm:
    return Norm(_array(layer.weight), _array(layer.bias))


def _two(layers: nn.Sequential | None, like: nn.Sequential | None = None) -> Two:
    """Two layers; where there are none, some that nobody asks, as wide as `like`."""
    layers = like if layers is None else layers
    assert layers is not None
    inner, outer = layers[0], layers[2]
    assert isinstance(inner, nn.Linear)
    assert isinstance(outer, nn.Linear)
    return Two(_weight(inner), _array(inner.bias), _weight(outer), _array(outer.bias))


def _joint(head: JointScore | None, like: JointScore | None = None) -> Joint:
    """A head; where there is none, one that nobody asks, as wide as `like`."""
    head = like if head is None else head
    assert head is not None
    return Joint(
        of_pair=_weight(head.of_pair),
        bias=_array(head.of_pair.bias),
        of_row=_weight(head.of_row),
        of_state=_weight(head.of_state),
        score=_array(head.score.weight)[0],
        last=_array(head.score.bias),
    )


def _prior(prior: LinearPrior | None, scale: float) -> Prior:
    found: dict[str, Any] = {"scale": np.array([0.0 if prior is None else scale])}
    for name, (group, own) in GROUPS.items():
        weights = getattr(prior, own, None)
        size = len(group)
        found[name] = np.zeros(size) if weights is None else _array(weights)
        found[f"{name}_units"] = _units(getattr(prior, f"{name}_layer", None), size, name)
        found[f"{name}_x"] = np.zeros(size)
    return Prior(**found)


def _units(layer: PriorLayer | None, features: int, name: str) -> Units:
    found = no_layer(features)
    if layer is not None:
        found = Layer(
            _array(layer.mean), _array(layer.scale), _array(layer.inner), _array(layer.bias),
            _array(layer.outer),
        )  # fmt: skip
    return units_of(found, features, name)
