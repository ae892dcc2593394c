"""The policies that come along are what their READMEs say: the linear score as a network."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from marl.codec.stack import stack
from marl.schedulers.shipped import policy_folder
from marl.training.policy_file import load_policy
from sim.linear.names import weights_of
from sim.linear.weights_file import read_weights
from tests.marl.games import RandomJobs, mixed_game
from tests.marl.playing import play

WEIGHTS = Path(__file__).resolve().parents[2] / "conf" / "linear_weights"


@pytest.mark.parametrize(
    ("checkpoint", "weights", "rest_share"),
    [("pretrained", "look_ahead", 0.0), ("pretrained_forest", "forest", 1.0)],
)
def test_a_shipped_policy_scores_as_its_weights_file(checkpoint, weights, rest_share):
    policy, spec, rules = load_policy(policy_folder(checkpoint), num_racks=4)
    assert rules.rest_share == rest_share
    path = WEIGHTS / f"{weights}.yaml"
    given = read_weights(str(path))
    for kept, group in ((policy.prior.start, "start"), (policy.prior.forward_to, "forward")):
        wanted = weights_of(given, group, str(path))
        np.testing.assert_allclose(kept.detach(), wanted, atol=1e-5)
    jobs = RandomJobs(count=10, partitions=2, most_gpus=4, span_s=900.0)(0)
    now = next(iter(play(mixed_game(2), jobs, replace(rules, window=4), 0)))
    batch = stack(list(now.seen.values()))
    with torch.no_grad():
        logits, (starts, forwards) = policy(batch).logits, policy.prior(batch)
    scores = torch.cat([starts.flatten(1), forwards.flatten(1), torch.zeros(len(starts), 1)], 1)
    legal = batch["action_mask"] > 0
    assert legal.sum() > legal.shape[0]
    torch.testing.assert_close(
        logits[legal], spec.prior_scale * scores[legal], atol=1e-4, rtol=1e-4
    )
