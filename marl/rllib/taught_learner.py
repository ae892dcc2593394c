"""Double DQN that stays near a rule: Hester et al., Deep Q-learning from demonstrations (2018)."""

from typing import Any

from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from torch import Tensor

from marl.rllib.dueling_module import OBS, VALUES
from marl.topdrl.imitate import behind_by
from marl.topdrl.teacher import CompactTeacher


class TaughtLearner(DQNTorchLearner):
    """Adds the large margin of what `CompactTeacher` would do, in every state of the batch.

    So the network leaves the rule only where values say so by more than the margin.
    `learner_config_dict`: `least_speed` of the rule, `margin`, and its `weight` in the loss; a
    weight of 0 leaves double DQN as it is.
    """

    def compute_loss_for_module(
        self, *, module_id: Any, config: Any, batch: dict[str, Any], fwd_out: dict[str, Tensor]
    ) -> Tensor:
        """RLlib's loss and the margin's."""
        loss: Tensor = super().compute_loss_for_module(
            module_id=module_id, config=config, batch=batch, fwd_out=fwd_out
        )
        told = self.config.learner_config_dict
        if told["weight"] == 0:
            return loss
        taught = CompactTeacher(told["least_speed"]).act_on_batch(batch[OBS])
        return loss + told["weight"] * behind_by(fwd_out[VALUES], taught, told["margin"]).mean()
