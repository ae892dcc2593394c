"""Weights of the network's parts as compiled code reads them, and what is computed with them."""

from typing import NamedTuple

import numpy as np

from marl.codec.observe import copy_to
from sim.arrays import FloatArray
from sim.jit import kernel
from sim.scoring.weights import add_product

NORM_EPSILON = 1e-5  # of torch's LayerNorm


class Update(NamedTuple):
    """`gnn.encoder.Update`: own state (I wide) and neighbours' mean (J wide) to H numbers."""

    own: FloatArray  # (I, H); I is 0 where a node has no state yet
    neighbour: FloatArray  # (J, H)
    bias: FloatArray  # (H,)


class Norm(NamedTuple):
    """A LayerNorm over H numbers."""

    weight: FloatArray  # (H,)
    bias: FloatArray  # (H,)


class Two(NamedTuple):
    """`marl.policy.heads.two_layers`: I numbers to O."""

    inner: FloatArray  # (I, hidden)
    inner_bias: FloatArray  # (hidden,)
    outer: FloatArray  # (hidden, O)
    outer_bias: FloatArray  # (O,)


class Joint(NamedTuple):
    """`marl.policy.heads.JointScore`: features of a pair, its row and the state to a score."""

    of_pair: FloatArray  # (P, hidden)
    bias: FloatArray  # (hidden,)
    of_row: FloatArray  # (R, hidden)
    of_state: FloatArray  # (Z, hidden)
    score: FloatArray  # (hidden,)
    last: FloatArray  # (1,)


@kernel
def bend(x: FloatArray) -> None:
    """ReLU, in place."""
    for i in range(len(x)):
        x[i] = max(x[i], 0.0)


@kernel
def update(own: FloatArray, neighbour: FloatArray, by: Update, out: FloatArray) -> None:
    """A node's new state; `own` is not read where it has none yet."""
    copy_to(by.bias, out)
    add_product(neighbour, by.neighbour, out)
    if len(by.own) > 0:
        add_product(own, by.own, out)
    bend(out)


@kernel
def norm(x: FloatArray, by: Norm) -> None:
    """LayerNorm, in place."""
    mean, square = 0.0, 0.0
    for i in range(len(x)):
        mean += x[i]
    mean /= len(x)
    for i in range(len(x)):
        square += (x[i] - mean) ** 2
    scale = 1.0 / np.sqrt(square / len(x) + NORM_EPSILON)
    for i in range(len(x)):
        x[i] = (x[i] - mean) * scale * by.weight[i] + by.bias[i]


@kernel
def two_layers(x: FloatArray, by: Two, hidden: FloatArray, out: FloatArray) -> None:
    """Fill out (O,); `hidden` is scratch."""
    copy_to(by.inner_bias, hidden)
    add_product(x, by.inner, hidden)
    bend(hidden)
    copy_to(by.outer_bias, out)
    add_product(hidden, by.outer, out)


@kernel
def joint_score(pair: FloatArray, by: Joint, shared: FloatArray, hidden: FloatArray) -> float:
    """The score of a pair; `shared` (hidden,) is what row and state give, and the bias."""
    copy_to(shared, hidden)
    add_product(pair, by.of_pair, hidden)
    total = by.last[0]
    for h in range(len(hidden)):
        total += max(hidden[h], 0.0) * by.score[h]
    return total


@kernel
def share(row: FloatArray, by: Joint, of_state: FloatArray, shared: FloatArray) -> None:
    """Fill `shared` for the pairs of a row; `of_state` (hidden,) is what the state gives."""
    for h in range(len(shared)):
        shared[h] = by.bias[h] + of_state[h]
    add_product(row, by.of_row, shared)
