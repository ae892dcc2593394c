"""Small heads of the pair-score policy."""

import torch
from torch import Tensor, nn


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
        scores: Tensor = self.score(torch.relu(self.of_pair(pairs) + shared)).squeeze(-1)
        return scores


def two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """ReLU network with one hidden layer."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
