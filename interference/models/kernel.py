"""The covariance of two rows: likeness of victims, of aggressors, and of both at once.

A side's likeness is a sum of four: same profile, same model, near features, and nothing. Aggressors
of a mix add up, so their order does not count. Rows of two GPU types share a part of it all.
"""

import torch
from torch import Tensor

from interference.models.encoding import UNKNOWN, Encoded

# ln of what they stand for; each is the middle of a normal prior of width PRIOR_WIDTH
START = {
    "victim_profile": -3.0,
    "victim_model": -1.0,
    "victim_near": -1.0,
    "victim_length": 0.0,
    "aggressor_profile": -3.0,
    "aggressor_model": -1.0,
    "aggressor_near": -1.0,
    "aggressor_length": 0.0,
    "both_profile": -2.0,
    "both_model": -1.0,
    "both_length": 0.0,
    "both": -1.0,
    "constant": -1.0,
    "noise": -3.0,
    "types_side": 0.0,  # logit of the part that GPU types share
    "types_both": 0.0,
}
PRIOR_WIDTH = 1.5


class Likeness:
    """What any covariance of N rows by M rows needs, worked out once."""

    def __init__(self, left: Encoded, right: Encoded) -> None:
        """Distances and equalities."""
        self.same_type = _equal(left.gpu_type, right.gpu_type)
        self.victim = _side(left.victim[:, None], right.victim[:, None])
        self.victim_names = (
            _equal(left.victim_profile, right.victim_profile),
            _equal(left.victim_model, right.victim_model),
        )
        self.aggressor = _side(left.aggressors, right.aggressors)
        self.aggressor_names = (
            _equal(left.aggressor_profile, right.aggressor_profile),
            _equal(left.aggressor_model, right.aggressor_model),
        )
        there, here = torch.as_tensor(left.present), torch.as_tensor(right.present)
        self.both_there = there[:, None, :, None] * here[None, :, None, :]

    def covariance(self, ln: dict[str, Tensor]) -> Tensor:
        """(N, M) under the parameters `ln`."""
        shared_side, shared_both = torch.sigmoid(ln["types_side"]), torch.sigmoid(ln["types_both"])
        other = 1.0 - self.same_type
        sides = self._victims(ln, "victim", ln["victim_near"].exp())
        sides = sides + self._aggressors(ln, "aggressor", ln["aggressor_near"].exp())
        one = torch.ones((), dtype=torch.float64)
        both = self._victims(ln, "both", one) * self._aggressors(ln, "both", one)
        return (
            sides * (self.same_type + shared_side * other)
            + ln["both"].exp() * both * (self.same_type + shared_both * other)
            + ln["constant"].exp() * self.same_type
        )

    def _victims(self, ln: dict[str, Tensor], what: str, near: Tensor) -> Tensor:
        profile, model = self.victim_names
        alike = _alike(ln, what, near, self.victim)[:, :, 0, 0]
        return alike + ln[f"{what}_profile"].exp() * profile + ln[f"{what}_model"].exp() * model

    def _aggressors(self, ln: dict[str, Tensor], what: str, near: Tensor) -> Tensor:
        profile, model = self.aggressor_names
        alike = _alike(ln, what, near, self.aggressor)
        alike = alike + ln[f"{what}_profile"].exp() * profile + ln[f"{what}_model"].exp() * model
        return (alike * self.both_there).sum(dim=(2, 3))


def _alike(ln: dict[str, Tensor], what: str, near: Tensor, square: Tensor) -> Tensor:
    return near * torch.exp(-0.5 * square * torch.exp(-2.0 * ln[f"{what}_length"]))


def _equal(left: object, right: object) -> Tensor:
    """(N, M) or, of (N, A) and (M, B), (N, M, A, B): 1 where equal and known."""
    a, b = torch.as_tensor(left), torch.as_tensor(right)
    if a.dim() == 1:
        return ((a[:, None] == b[None]) & (a[:, None] != UNKNOWN)).double()
    a, b = a[:, None, :, None], b[None, :, None, :]
    return ((a == b) & (a != UNKNOWN)).double()


def _side(left: object, right: object) -> Tensor:
    """Mean squared distance of features, (N, M) or (N, M, A, B) for A and B jobs a row."""
    a, b = torch.as_tensor(left), torch.as_tensor(right)
    (n, many, width), (m, others, _) = a.shape, b.shape
    square = torch.cdist(a.reshape(-1, width), b.reshape(-1, width)).square() / max(width, 1)
    return square.reshape(n, many, m, others).permute(0, 2, 1, 3)
