"""The policies that come along are what their READMEs say: the linear score as a network."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from marl.policy import policy_folder
from marl.policy.build import load_policy, read_spec
from marl.policy.pair_score import stack
from marl.schedulers.marl import MarlScheduler
from sim.run import Run
from sim.scoring.linear_score import LinearScore
from sim.scoring.weights import read_weights, score_weights_of
from sim.simulator import simulate
from tests.marl.playing import play
from tests.marl.worlds import RandomJobs, mixed_world

WEIGHTS = Path(__file__).resolve().parents[2] / "conf" / "linear_weights"


@pytest.mark.parametrize(
    ("checkpoint", "weights", "rest"),
    [
        ("pretrained", "look_ahead", (0.0, None)), ("pretrained_forest", "forest", (1.0, None)),
        ("pretrained_suspending", "suspending", (1.0, None)),
        ("pretrained_gittins", "gittins", (1.0, 28800.0)),
    ],
)  # fmt: skip
def test_a_shipped_policy_scores_as_its_weights_file(checkpoint, weights, rest):
    policy, spec, rules = load_policy(policy_folder(checkpoint))
    assert (rules.rest_share, rules.rest_most_s) == rest
    path = WEIGHTS / f"{weights}.yaml"
    given = score_weights_of(read_weights(str(path)), str(path))
    kept = {"start": policy.prior.start, "forward": policy.prior.forward_to}
    kept |= {"suspend": policy.prior.suspend} if given.suspend is not None else {}
    assert rules.suspends == (given.suspend is not None)
    for group, mine in kept.items():
        np.testing.assert_allclose(mine.detach(), getattr(given, group), atol=1e-5)
        layer, own = getattr(given, f"{group}_layer"), getattr(policy.prior, f"{group}_layer")
        assert (own is None) == (layer.size == 0)
        if own is not None:
            np.testing.assert_allclose(own.inner.detach(), layer.inner, atol=1e-5)
    jobs = RandomJobs(count=10, partitions=2, most_gpus=4, span_s=900.0)(0)
    now = next(iter(play(mixed_world(2), jobs, replace(rules, window=4), 0)))
    batch = stack(list(now.seen.values()))
    with torch.no_grad():
        logits, told = policy(batch).logits, policy.prior(batch)
    known = [each.flatten(1) for each in told if each is not None]
    scores = torch.cat([*known, torch.zeros(len(logits), 1)], 1)
    legal = batch["action_mask"] > 0
    assert legal.sum() > legal.shape[0]
    torch.testing.assert_close(
        logits[legal], spec.prior_scale * scores[legal], atol=1e-4, rtol=1e-4
    )


def outcome(run: Run) -> list[tuple[object, ...]]:
    """What happened, in an order that does not depend on that of one instant's orders."""
    log = run.log
    gpus = (tuple(sorted(held.tolist())) for held in log.gpus)
    return sorted(zip(log.time_s, log.job, log.kind, log.partition, gpus, strict=True))


# Two partitions of racks that are no neighbours; six forwards a job.
SCATTERED = replace(
    mixed_world(2, max_forwards=6), partition_of_server=np.array([0, 0, 1, 1, 1, 1, 0, 0])
)


@pytest.mark.parametrize(
    "world",
    [mixed_world(2), mixed_world(4), SCATTERED, mixed_world(2, [1, 3, 2])],
    ids=["2", "4", "scattered", "uneven"],
)
@pytest.mark.parametrize(
    ("checkpoint", "weights"), [("pretrained", "look_ahead"), ("pretrained_forest", "forest")]
)
def test_a_shipped_policy_decides_as_the_linear_score_of_its_weights(checkpoint, weights, world):
    """Turns, guards and ties included; only that it is not asked again when patience ends."""
    policy = MarlScheduler(checkpoint=checkpoint)
    _, rules = read_spec(policy_folder(checkpoint))
    score = LinearScore(
        window=rules.window, patience_s=rules.patience_s, use_durations=True,
        rest_share=rules.rest_share, weights={}, weights_file=str(WEIGHTS / f"{weights}.yaml"),
    )  # fmt: skip
    jobs = RandomJobs(count=120, partitions=world.partitions, most_gpus=4, span_s=12000.0)(0)
    run = simulate(world.simulator(jobs), policy, 0, None)
    assert (run.start_s - jobs.submit_s < rules.patience_s).all()
    assert run.forwards.sum() > 20
    assert outcome(run) == outcome(simulate(world.simulator(jobs), score, 0, None))
