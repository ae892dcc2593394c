"""The hierarchical encoder that also reads links: inside servers as a graph, outside as loads."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from gnn.base import ClusterBatch, Embeddings, Encoder, Links, Nodes, ScatterTree, Sizes, Sweep


class EdgeUpdate(MessagePassing):
    r"""A node's new state from its own and from its neighbours', each seen with the edge to it.

    .. math::
        m_v = \mathrm{mean}_{u \in N(v)} \mathrm{ReLU}(W_m [h_u \| e_{uv}] + b_m), \quad
        h'_v = \mathrm{ReLU}(W_{own} h_v + b + m_v)

    The message is that of GINE (Hu et al., "Strategies for Pre-training Graph Neural Networks",
    ICLR 2020) with the states first mapped by a matrix, and a mean for its sum. A node without an
    edge hears nothing: its m is 0.

    Args:
        own_dim: width of the nodes' states.
        edge_dim: features of an edge.
        out_dim: width of the result.

    Shapes:
        input: states (N, own_dim), edge_index (2, E) int64 (from, to), x_edge (E, edge_dim)
        output: (N, out_dim)
    """

    def __init__(self, *, own_dim: int, edge_dim: int, out_dim: int) -> None:
        """Draw weights for the given widths."""
        super().__init__(aggr="mean")
        self.own = nn.Linear(own_dim, out_dim)
        self.of_node = nn.Linear(own_dim, out_dim, bias=False)
        self.of_edge = nn.Linear(edge_dim, out_dim)

    def forward(self, state: Tensor, edge_index: Tensor, x_edge: Tensor) -> Tensor:
        """New states of all nodes."""
        # The product with [h || e] by its parts: that with h is made once a node, not once an edge.
        heard = self.propagate(edge_index, x=self.of_node(state), edge=self.of_edge(x_edge))
        return torch.relu(self.own(state) + heard)

    def message(self, x_j: Tensor, edge: Tensor) -> Tensor:
        """(E, out_dim) what each edge brings."""
        return torch.relu(x_j + edge)


class LinkedEncoder(Encoder):
    r"""Graph inside each server, then server -> rack -> datacenter and back down.

    Inside a server the nodes are its GPUs, PCIe switches and sockets, the edges PCIe, the way
    between sockets and NVLink, with their bandwidths. `inner_rounds` updates (`EdgeUpdate`)
    run on it; switches and sockets have no features and begin at zero, edges tell them apart. The
    server is given :math:`[\mathrm{mean} \| \mathrm{max}]` of its GPUs, its features and those of
    its links. From there on it is `gnn.encoder.HierarchicalEncoder`. Where a topology does not say
    what is inside its servers there are no edges, and GPUs are read one by one.

    Source: Zhao, Wu (https://arxiv.org/abs/2112.13354) for the two levels, inside the server and
    across the datacenter; equations and widths are this project's.

    Args:
        gpu_features: numbers describing a GPU.
        server_features: numbers describing a server.
        edge_features: numbers describing an edge inside a server.
        link_features: numbers describing a server's links to the outside.
        gpu_dim: width of the nodes inside servers.
        hidden_dim: width of server, rack and cluster embeddings.
        rounds: sweeps up and down, at least 1; each has its own weights.
        inner_rounds: updates inside servers, at least 1; each has its own weights.

    Raises:
        ValueError: a size is below 1.

    Shapes:
        input: `ClusterBatch` with `links`
        output: as `gnn.encoder.HierarchicalEncoder`
    """

    def __init__(
        self,
        *,
        gpu_features: int,
        server_features: int,
        edge_features: int,
        link_features: int,
        gpu_dim: int,
        hidden_dim: int,
        rounds: int,
        inner_rounds: int,
    ) -> None:
        """Draw weights for the given sizes."""
        if inner_rounds < 1:
            raise ValueError(f"encoder.inner_rounds is {inner_rounds}; it must be at least 1")
        # Before the rest: `_add_layers` reads them.
        self.edge_features, self.link_features = edge_features, link_features
        self.inner_rounds = inner_rounds
        super().__init__(
            gpu_features=gpu_features,
            server_features=server_features,
            gpu_dim=gpu_dim,
            hidden_dim=hidden_dim,
            rounds=rounds,
        )

    def _add_layers(self, sizes: Sizes) -> None:
        dim, hidden = sizes.gpu_dim, sizes.hidden_dim
        self.inside = nn.ModuleList(
            EdgeUpdate(own_dim=dim, edge_dim=self.edge_features, out_dim=dim)
            for _ in range(self.inner_rounds)
        )
        self.sweeps = nn.ModuleList(
            Sweep(
                gpu_dim=2 * dim,
                server_dim=hidden if done else sizes.server_features + self.link_features,
                upper_dim=hidden if done else 0,
                hidden_dim=hidden,
            )
            for done in range(sizes.rounds)
        )

    def forward(self, batch: ClusterBatch) -> Embeddings:
        """Encode `batch`.

        Raises:
            ValueError: there are no links, features have another width than the encoder's, or a
                rack is out of range.
        """
        links = self._checked(batch)
        edges = ScatterTree.of(batch)
        x_gpu, x_server = edges.inputs(batch)
        x_link = edges.real_servers(links.x_link.flatten(0, 1))
        nodes = Nodes(torch.cat([x_server, x_link], -1), None, None)
        read = self._read_out(self._states(x_gpu, batch, links, edges), edges)
        for sweep in self.sweeps:
            nodes = sweep(read, nodes, edges)
        return self._normed(batch, edges, nodes)

    def _states(
        self, x_gpu: Tensor, batch: ClusterBatch, links: Links, edges: ScatterTree
    ) -> Tensor:
        """(N, K, gpu_dim) GPUs after the updates inside their servers, zero where there is none."""
        gpu = self.embed_gpus(x_gpu).masked_fill(edges.no_gpu, 0.0)
        servers, gpus, width = gpu.shape
        state = torch.cat([gpu, gpu.new_zeros(servers, links.num_hubs, width)], 1)
        edge_index, x_edge = _both_ways(batch, links)
        flat = state.flatten(0, 1)
        for update in self.inside:
            flat = update(flat, edge_index, x_edge)
        return flat.view_as(state)[:, :gpus].masked_fill(edges.no_gpu, 0.0)

    @staticmethod
    def _read_out(gpu: Tensor, edges: ScatterTree) -> Tensor:
        """(N, 2 * gpu_dim) mean and maximum over a server's GPUs; no state is below 0."""
        return torch.cat([edges.gpus_to_servers(gpu), gpu.amax(1)], -1)

    def _checked(self, batch: ClusterBatch) -> Links:
        self._check(batch)
        if batch.links is None:
            raise ValueError("the batch has no links; give ClusterBatch.links, or use gnn.encoder")
        widths = (batch.links.x_edge.shape[-1], batch.links.x_link.shape[-1])
        if widths != (self.edge_features, self.link_features):
            raise ValueError(
                f"the batch has {widths[0]} edge and {widths[1]} link features; the encoder was "
                f"built for edge_features={self.edge_features} and "
                f"link_features={self.link_features}"
            )
        return batch.links


def _both_ways(batch: ClusterBatch, links: Links) -> tuple[Tensor, Tensor]:
    """The real edges as (2, 2 * n) rows of flat nodes, each both ways, and their features."""
    parts, servers, gpus = batch.gpu_mask.shape
    nodes = gpus + links.num_hubs
    ends = links.edge_ends.flatten(0, 1)  # (N, E, 2)
    first = torch.arange(0, parts * servers * nodes, nodes, device=ends.device)
    hubs = batch.gpu_mask.new_ones(parts * servers, links.num_hubs)
    present = torch.cat([(batch.gpu_mask & batch.server_mask.unsqueeze(2)).flatten(0, 1), hubs], 1)
    rows = ends.clamp(min=0) + first.view(-1, 1, 1)
    real = (ends >= 0).all(-1) & present.flatten()[rows].all(-1)  # (N, E)
    real = real & batch.server_mask.view(-1, 1)
    one_way = rows[real].t()  # (2, n)
    x_edge = links.x_edge.flatten(0, 1)[real]
    return torch.cat([one_way, one_way.flip(0)], 1), torch.cat([x_edge, x_edge])
