"""The policy network, in torch and compiled; no RL framework. This file needs no torch."""

from pathlib import Path

# `pretrained`: the agents. `pretrained_suspending`: they suspend jobs for others, too.
# `pretrained_forest`: tuned for predictions by a forest on finished jobs. `pretrained_alone`: each
# agent as if no other were there. `pretrained_gittins`: they suspend, and predictions are of the
# least expected work a completion (`estimator.gittins`).
SHIPPED = (
    "pretrained", "pretrained_suspending", "pretrained_forest", "pretrained_alone",
    "pretrained_gittins",
)  # fmt: skip


def policy_folder(checkpoint: str) -> Path:
    """The folder of a shipped policy, or the path given."""
    if checkpoint in SHIPPED:
        return Path(__file__).resolve().parents[1] / checkpoint
    return Path(checkpoint)
