"""Networks of agents and of groups, and without critics: who scores which turns, who learns."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpuyard.launch.build import check_training
from gpuyard.launch.errors import ConfigError
from gpuyard.training.board import training_bars
from gpuyard.training.network import network_in
from gpuyard.training.session import Training, policy_spec
from marl.policy.build import PolicyFileError, load_policy, read_spec, save_policy
from marl.policy.pair_score import PolicyOfEach, networks_of, stack
from marl.training.episodes import play_greedily, validation_jct_s
from marl.training.spec import RayError, TrainingError
from sim.scoring.table import OfPeer
from tests.marl.test_policy_files import deployed
from tests.marl.test_rllib import PPO, arguments
from tests.marl.test_session import launched
from tests.marl.trainings import local_ray
from tests.marl.worlds import (
    MIXED_JOBS,
    RULES,
    SMALL,
    any_legal,
    env_of,
    events,
    loud_policy,
    mixed_world,
    plain_world,
)
from tests.sim.worlds import Job, fates, job_table

EACH = replace(SMALL, agents=2)


def seen_by_both() -> dict[str, torch.Tensor]:
    """Observations of the two agents, in no order."""
    env, rng = env_of(mixed_world(), MIXED_JOBS, everyone=True), np.random.default_rng(0)
    observations, _ = env.reset(seed=3)
    found = []
    for _ in range(20):
        found += list(observations.values())
        observations, *_ = env.step({a: any_legal(rng, o) for a, o in observations.items()})
    return stack([found[at] for at in rng.permutation(len(found))])


def whose(observations: dict[str, torch.Tensor]) -> torch.Tensor:
    return observations["peers"][..., OfPeer.OWN].argmax(-1)


def test_every_row_is_scored_and_judged_by_the_network_of_its_agent():
    policy, seen = loud_policy(EACH, 0), seen_by_both()
    scores, who = policy(seen), whose(seen)
    values = policy.values(policy.encode(seen)[0])
    assert set(who.tolist()) == {0, 1}
    for m, network in enumerate(networks_of(policy)):
        own = network({key: value[who == m] for key, value in seen.items()})
        torch.testing.assert_close(scores.logits[who == m], own.logits)
        torch.testing.assert_close(values[who == m], network.values(own.state))
        torch.testing.assert_close(policy.values(scores.state)[who == m], values[who == m])


def test_an_agent_learns_from_its_own_turns_alone():
    policy, seen = loud_policy(EACH, 0), seen_by_both()
    scores, second = policy(seen), whose(seen) == 1
    judged = policy.values(scores.state)[second]
    (scores.logits[second, -1].sum() + judged.sum()).backward()
    first, second = ([each.grad for each in network.parameters()] for network in policy.networks)
    assert all(grad is None or not grad.any() for grad in first)
    assert any(grad is not None and grad.any() for grad in second)


@pytest.mark.ray
@pytest.mark.parametrize("array_runner", [True, False])
def test_ppo_trains_both_and_goes_on_from_a_checkpoint(trainer_of, tmp_path, array_runner):
    given = arguments(policy=EACH, ppo=replace(PPO, array_runner=array_runner))
    first = trainer_of(**given)
    begun = [dict(network.state_dict()) for network in networks_of(first.averaged_policy())]
    first.iterate()
    first.save(tmp_path / "checkpoint")
    kept = first.policy().state_dict()
    moved = [network.state_dict() for network in networks_of(first.policy())]
    for before, after in zip(begun, moved, strict=True):
        assert not torch.equal(before["query.0.weight"], after["query.0.weight"])
    assert not torch.equal(moved[0]["query.0.weight"], moved[1]["query.0.weight"])
    second = trainer_of(**arguments(policy=EACH, seed=9, ppo=given["ppo"]))
    second.restore(tmp_path / "checkpoint")
    assert all(torch.equal(kept[key], found) for key, found in second.policy().state_dict().items())
    assert second.iterate().number == 2
    with pytest.raises(Exception, match="made by another training"):
        trainer_of(**arguments(policy=replace(SMALL, agents=3))).restore(tmp_path / "checkpoint")


@pytest.mark.ray
def test_several_learners_are_refused(trainer_of: Callable[..., Any]):
    with pytest.raises(RayError, match=r"num_learners is 2 with several policy\.networks"):
        trainer_of(**arguments(policy=EACH, ray=replace(local_ray(), num_learners=2)))


def of_both(folder: Path, *seeds: int) -> Path:
    save_policy(folder, PolicyOfEach([loud_policy(SMALL, seed) for seed in seeds]), EACH, RULES)
    return folder


def test_validation_plays_as_the_scheduler_with_as_many_agents_alone(tmp_path: Path):
    policy = load_policy(of_both(tmp_path, 0, 5))[0]
    simulator = mixed_world().simulator(MIXED_JOBS(1))
    (run,) = play_greedily(policy, [simulator], RULES, name="marl")
    assert events(run) == events(deployed(tmp_path, 1))
    with pytest.raises(PolicyFileError, match="networks for 2 agents, and here are 4"):
        deployed(tmp_path, 1, partitions=4)
    with pytest.raises(PolicyFileError, match="has a network an agent"):  # learning by playing
        network_in(tmp_path)


def test_agents_of_a_group_share_a_network(tmp_path: Path):
    first, second = loud_policy(SMALL, 0), loud_policy(SMALL, 5)
    of = {
        "shared": (first, SMALL),
        "together": (PolicyOfEach([first], [[1, 0]]), replace(EACH, groups=[[1, 0]])),
        "equal": (PolicyOfEach([first, first]), EACH),
        "each": (PolicyOfEach([first, second]), EACH),
        "crossed": (PolicyOfEach([second, first], [[1], [0]]), replace(EACH, groups=[[1], [0]])),
    }
    played = {}
    for name, (policy, spec) in of.items():
        save_policy(tmp_path / name, policy, spec, RULES)
        assert read_spec(tmp_path / name)[0] == spec
        played[name] = events(deployed(tmp_path / name, 1))
    assert played["together"] == played["equal"] == played["shared"]
    assert played["shared"] != played["each"] == played["crossed"]
    for groups in ([[0]], [[0, 1], []], [[0, 1, 1]], [0, 1], [[0, True]]):
        with pytest.raises(ValueError, match="it must have each of 2 agents once"):
            replace(EACH, groups=groups)


def test_weights_of_each_find_their_columns_by_name(tmp_path: Path):
    for folder, spec in ((tmp_path / "shared", SMALL), (tmp_path / "each", EACH)):
        save_policy(folder, loud_policy(spec, 0), spec, RULES)
        content = json.loads((folder / "policy.json").read_text())
        assert ("agents" in content["policy"]) == (spec is EACH)  # or the file is as ever
        content["columns"]["OfGpu"].reverse()
        (folder / "policy.json").write_text(json.dumps(content))
        each = (networks_of(policy) for policy in (loud_policy(spec, 0), load_policy(folder)[0]))
        for was, network in zip(*each, strict=True):
            found = network.encoder.gpu.weight
            assert torch.equal(found, was.encoder.gpu.weight.flip(-1))


@pytest.mark.ray
def test_a_training_has_a_network_for_each_of_its_agents_if_told_so(tmp_path: Path):
    training = Training(launched(tmp_path, "policy.networks=each", "agents.count=3"))
    networks = networks_of(training.fresh_policy())
    assert (training.spec.agents, len(networks)) == (3, 3)
    priors = [network.prior.state_dict() for network in networks]
    assert all(torch.equal(priors[0][key], each[key]) for each in priors for key in each)
    groups = launched(tmp_path / "groups", "policy.networks=[[2,0],[1]]", "agents.count=3")
    assert len(networks_of(Training(groups).fresh_policy())) == 2
    with pytest.raises(ConfigError, match=r"each of 3 agents, from 0, stands once"):
        Training(launched(tmp_path / "short", "policy.networks=[[0],[1]]", "agents.count=3"))
    assert len(networks_of(Training(launched(tmp_path / "shared")).fresh_policy())) == 1
    with pytest.raises(ConfigError, match=r"policy\.networks is 'mine'; it must be null, each, or"):
        Training(launched(tmp_path / "mine", "policy.networks=mine"))
    before = launched(tmp_path / "before").config
    del before["policy"]["networks"]  # somebody's own file of conf/policy
    check_training(before)
    assert policy_spec(before).agents == 0
    with pytest.raises(RayError, match="num_learners is 2 with several policy"):  # before any play
        Training(launched(tmp_path / "two", "policy.networks=each", "ray.num_learners=2"))


@pytest.mark.ray
def test_ppo_learns_without_a_critic(trainer_of: Callable[..., Any], tmp_path: Path):
    bare = replace(SMALL, critic="none")
    trainer = trainer_of(**arguments(policy=bare, ppo=replace(PPO, gae_lambda=1.0)))
    begun = {key: value.clone() for key, value in trainer.policy().state_dict().items()}
    assert trainer.iterate().value_explained == pytest.approx(0.0, abs=1e-6)
    learned = trainer.policy()
    assert not any(name.startswith("value") for name in begun)
    assert not torch.equal(begun["query.0.weight"], learned.state_dict()["query.0.weight"])
    save_policy(tmp_path / "bare", learned, bare, RULES)
    read = load_policy(tmp_path / "bare")[0]
    assert not read.values(read.encode(seen_by_both())[0]).any()
    words = "policy.critic=none", "warm_start=values", "warm_start.episodes=1000000"
    training = Training(launched(tmp_path, *words))
    with training_bars() as progress:  # nothing is played, for there is no critic to fit
        assert training.warm_start(progress).value is None


def test_a_validation_window_of_which_no_job_is_done_is_named():
    jobs, policy = job_table([Job(0.0, 1, 10.0)]), loud_policy(SMALL, 1)
    world, windows = plain_world(1, 2), [jobs, jobs]
    assert validation_jct_s(policy, world, RULES, windows.__getitem__, 2) == pytest.approx(10)
    windows[1] = job_table([Job(0.0, 1, 0.0)], **fates(5.0))  # given up
    with pytest.raises(TrainingError, match=r"validation window 1: none .*workload\.num_jobs"):
        validation_jct_s(policy, world, RULES, windows.__getitem__, 2)
