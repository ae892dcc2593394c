"""The action space of one agent: discrete, and aware of what is legal now."""

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces


class LegalActions(spaces.Discrete[np.int64]):
    """`Discrete(n)` whose plain `sample()` draws legal actions only.

    The environment keeps `legal` up to date, so that tools that sample without a mask (PettingZoo's
    tests, random baselines) play by the rules. A mask or probabilities that are given count alone.
    """

    def __init__(self, n: int) -> None:
        """All `n` actions count as legal until the environment says otherwise."""
        super().__init__(n)
        self.legal: npt.NDArray[np.int8] | None = None  # (n,) 1 where legal

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """One action, uniform over those that are legal now."""
        if mask is None and probability is None:
            mask = self.legal
        return super().sample(mask, probability)
