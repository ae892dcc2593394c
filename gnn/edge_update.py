"""One step of message passing along edges that have features of their own."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing


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
