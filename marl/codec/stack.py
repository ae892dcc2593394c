"""Observations of several agents as one batch of tensors."""

from collections.abc import Sequence

import numpy as np
import torch

from marl.codec.layout import Observation


def stack(observations: Sequence[Observation]) -> dict[str, torch.Tensor]:
    """Tensors with a leading batch dimension, one row an observation."""
    return {
        key: torch.from_numpy(np.stack([o[key] for o in observations])) for key in observations[0]
    }
