"""One step of message passing: a node's new state from its own and its neighbours' mean."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Update(nn.Module):
    r"""The mean-aggregation update of GraphSAGE, split so that messages can be made where few.

    Source: Hamilton, Ying, Leskovec, "Inductive Representation Learning on Large Graphs"
    (NeurIPS 2017, https://arxiv.org/abs/1706.02216), algorithm 1 with the mean aggregator in its
    sum form, without neighbour sampling and without normalising rows to length 1:

    .. math:: h'_v = \mathrm{ReLU}(W_{own} h_v + W_{nbr} \cdot \mathrm{mean}_{u \in N(v)} h_u + b)

    Going down, every node has one neighbour (its parent), so `message` is taken on the few
    parents and handed to the many children: the product commutes with the copy.

    Args:
        own_dim: width of the node's own state; 0 where it has none yet.
        neighbour_dim: width of the neighbours' states.
        out_dim: width of the result.

    Shapes:
        message: (M, neighbour_dim) -> (M, out_dim)
        forward: own (N, own_dim) or None, message (N, out_dim) -> (N, out_dim)
    """

    def __init__(self, *, own_dim: int, neighbour_dim: int, out_dim: int) -> None:
        """Draw weights for the given widths."""
        super().__init__()
        self.neighbour = nn.Linear(neighbour_dim, out_dim)
        self.own = nn.Linear(own_dim, out_dim, bias=False) if own_dim else None

    def reset_parameters(self) -> None:
        """Draw new weights."""
        self.neighbour.reset_parameters()
        if self.own is not None:
            self.own.reset_parameters()

    def message(self, neighbour: Tensor) -> Tensor:
        """`W_nbr h + b` of neighbours or of their mean."""
        return F.linear(neighbour, self.neighbour.weight, self.neighbour.bias)

    def own_part(self, own: Tensor) -> Tensor:
        """`W_own h`, (N, own_dim) -> (N, out_dim), for who keeps it between calls."""
        return F.linear(own, cast(nn.Linear, self.own).weight)

    def forward(self, own: Tensor | None, message: Tensor) -> Tensor:
        """The node's new state; `own` is ignored where the node had none yet (`own_dim` 0)."""
        if self.own is None:
            return torch.relu(message)
        return torch.addmm(message, cast(Tensor, own), self.own.weight.t()).relu_()
