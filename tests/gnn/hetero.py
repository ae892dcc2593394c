"""The encoder written with PyG's own heterogeneous operators: slow, plain, the reference."""

import warnings
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

from gnn.base import ClusterBatch, Embeddings, Sweep, Update
from gnn.encoder import HierarchicalEncoder

Edge = tuple[str, str, str]
GPU_UP: Edge = ("gpu", "in", "server")
SERVER_UP: Edge = ("server", "in", "rack")
RACK_UP: Edge = ("rack", "in", "cluster")
CLUSTER_DOWN: Edge = ("cluster", "over", "rack")
RACK_DOWN: Edge = ("rack", "over", "server")


class HeteroEncoder(nn.Module):
    """A copy of `encoder`, weights included, of `HeteroConv` over `SAGEConv`, one a step."""

    def __init__(self, encoder: HierarchicalEncoder) -> None:
        super().__init__()
        self.hidden_dim = encoder.hidden_dim
        self.gpu = deepcopy(encoder.gpu)
        self.norms = nn.ModuleDict(
            {key: deepcopy(getattr(encoder, f"{key}_norm")) for key in Embeddings._fields}
        )
        self.steps = nn.ModuleList(
            step for sweep in encoder.sweeps if isinstance(sweep, Sweep) for step in _steps(sweep)
        )

    def forward(self, batch: ClusterBatch) -> Embeddings:
        data = to_hetero(batch, hidden_dim=self.hidden_dim)
        h = self.encode(data)
        parts, servers = batch.server_mask.shape
        shape = {"server": (parts, servers), "rack": (parts, batch.num_racks), "cluster": (parts,)}
        padded = {}
        for level, outer in shape.items():
            full = h[level].new_zeros(*outer, self.hidden_dim).flatten(0, -2)
            rows = data[level].row.unsqueeze(1).expand_as(h[level])
            padded[level] = full.scatter(0, rows, h[level]).view(*outer, -1)
        return Embeddings(**padded)

    def encode(self, data: HeteroData) -> dict[str, Tensor]:
        """Embeddings of the real servers, racks and clusters of a graph made by `to_hetero`."""
        h: dict[str, Tensor] = dict(data.x_dict)
        h["gpu"] = torch.relu(self.gpu(h["gpu"]))
        for step in self.steps:
            new = step(h, data.edge_index_dict)
            h |= {level: torch.relu(rows) for level, rows in new.items()}
        return {level: norm(h[level]) for level, norm in self.norms.items()}


def to_hetero(batch: ClusterBatch, *, hidden_dim: int) -> HeteroData:
    """The real nodes and edges of `batch` as one graph.

    Racks and clusters, which have no features, get zeros of width `hidden_dim`; `row` of a level
    holds each node's place in the flat padded batch. A cluster without a server is left out.
    """
    data = HeteroData()
    gpu_place = (batch.gpu_mask & batch.server_mask.unsqueeze(2)).nonzero()  # (n, 3)
    server_place = batch.server_mask.nonzero()  # (n, 2)
    rack_of_server = batch.server_rack[batch.server_mask]  # (n,)
    servers, racks = batch.server_mask.shape[1], batch.num_racks
    data["gpu"].x = batch.x_gpu[tuple(gpu_place.T)]
    data["server"].x = batch.x_server[tuple(server_place.T)]
    data["server"].row = server_place[:, 0] * servers + server_place[:, 1]
    rack_row = server_place[:, 0] * racks + rack_of_server
    data["rack"].row = rack_row.unique()
    data["cluster"].row = server_place[:, 0].unique()
    for level in ("rack", "cluster"):
        data[level].x = batch.x_server.new_zeros(len(data[level].row), hidden_dim)
    _link(data, GPU_UP, _find(data, "server", gpu_place[:, 0] * servers + gpu_place[:, 1]))
    _link(data, SERVER_UP, _find(data, "rack", rack_row))
    _link(data, RACK_UP, _find(data, "cluster", data["rack"].row // max(racks, 1)))
    data[CLUSTER_DOWN].edge_index = data[RACK_UP].edge_index.flip(0)
    data[RACK_DOWN].edge_index = data[SERVER_UP].edge_index.flip(0)
    return data


def _find(data: HeteroData, level: str, row: Tensor) -> Tensor:
    """Node numbers at `level` of the nodes that stand in `row` of the padded batch."""
    return torch.searchsorted(data[level].row, row)


def _link(data: HeteroData, edge: Edge, parent: Tensor) -> None:
    """Edges from every child, in order, to its `parent`."""
    data[edge].edge_index = torch.stack([torch.arange(len(parent)), parent])


def _steps(sweep: Sweep) -> list[HeteroConv]:
    """The five steps of a sweep, in order, with copied weights."""
    updates = (sweep.server_up, sweep.rack_up, sweep.cluster_up, sweep.rack_down, sweep.server_down)
    edges = (GPU_UP, SERVER_UP, RACK_UP, CLUSTER_DOWN, RACK_DOWN)
    with warnings.catch_warnings():
        # A step updates one level on purpose; PyG warns of the levels it leaves alone.
        warnings.filterwarnings("ignore", message="There exist node types")
        return [HeteroConv({e: _sage(u)}) for e, u in zip(edges, updates, strict=True)]


def _sage(update: Update) -> SAGEConv:
    """A `SAGEConv` with the weights of `update`."""
    nbr, own = update.neighbour, update.own
    width = (nbr.in_features, own.in_features if own is not None else nbr.out_features)
    conv = SAGEConv(width, nbr.out_features, aggr="mean", root_weight=own is not None)
    conv.lin_l.load_state_dict(nbr.state_dict())
    if own is not None:
        conv.lin_r.load_state_dict(own.state_dict())
    return conv
