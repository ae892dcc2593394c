"""The categorical distribution of RLlib, computed when asked."""

from functools import cached_property
from typing import Any

import torch
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from torch import Tensor


class LazyCategorical(TorchCategorical):
    """Equal to `TorchCategorical`, at less than half of its time in PPO's loss.

    RLlib's loss makes two distributions a minibatch and asks one of them for nothing unless there
    is a KL penalty, and the other for what one log-softmax answers; torch's own normalises its
    logits, and takes their softmax anew, whenever one is made.
    """

    def __init__(self, logits: Tensor) -> None:
        """`logits` (..., actions)."""
        self.logits, self.probs, self._one_hot = logits, None, None

    @cached_property
    def _dist(self) -> torch.distributions.Categorical:
        return torch.distributions.Categorical(logits=self.logits, validate_args=False)

    @cached_property
    def _log_p(self) -> Tensor:
        return torch.log_softmax(self.logits, -1)

    def logp(self, value: Tensor, **kwargs: Any) -> Tensor:
        """(...,) logarithm of the probability of actions (...,)."""
        del kwargs
        return self._log_p.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """(...,) in nats."""
        return -(self._log_p.exp() * self._log_p).sum(-1)
