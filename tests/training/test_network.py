"""The graph network as a vector: which numbers it holds, and that it plays as its policy does."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gnn.base import ClusterBatch
from gpuyard.training.form import NetworkForm, linear_of, linear_sigmas, zero_weights
from gpuyard.training.network import LAST, OUTER, Ablation, first_network
from gpuyard.training.strategies import Saved, ascend, begin, load, members, noise, save
from gpuyard.training.teaching import apart
from marl.policy.build import PolicySpec, save_policy
from marl.policy.pair_score import PairScorePolicy, searched, stack, vector_of
from marl.schedulers.marl import MarlScheduler
from sim.arrays import FloatArray
from sim.report.summary import summarise
from sim.scoring.table import ForwardWeight, OfForward, OfPair, StartWeight, SuspendWeight
from sim.scoring.weights import ScoreWeights
from sim.simulator import simulate
from tests.marl.playing import play
from tests.marl.worlds import RULES, RandomJobs, mixed_world
from tests.sim.test_layer import drawn

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(5)
SUSPENDING = ScoreWeights(
    RNG.normal(size=len(StartWeight)), RNG.normal(size=len(ForwardWeight)),
    start_layer=drawn(3, len(StartWeight)), suspend=RNG.normal(size=len(SuspendWeight)),
)  # fmt: skip
WEIGHTS = {
    "plain": replace(SUSPENDING, suspend=None, start_layer=zero_weights(False).start_layer),
    "suspending": SUSPENDING,
    "zero": zero_weights(suspends=False),
}


def first(
    name: str, *hide: str, reach: str = "cluster"
) -> tuple[NetworkForm, FloatArray, FloatArray]:
    weights = WEIGHTS[name]
    rules = replace(RULES, suspends=weights.suspend is not None, only_placeable=False)
    sizes = {"gpu_dim": 3, "hidden_dim": 4, "head_dim": 5}
    return first_network(sizes, rules, weights, 2, Ablation(hide, reach))


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("away", [0.0, 1.0])
def test_it_plays_as_the_scheduler_with_the_policy_it_writes(tmp_path, name: str, away: float):
    form, vector, sigma = first(name)
    vector = vector + away * sigma * np.random.default_rng(1).standard_normal(len(vector))
    save_policy(tmp_path, form.policy(vector), PolicySpec(**form.spec), form.rules)
    world = mixed_world(2)
    for seed in range(3):
        jobs = RandomJobs(count=30, partitions=2, most_gpus=4, span_s=900.0)(seed)
        player = pickle.loads(pickle.dumps(form.player(vector)))  # as workers get it
        played_s = player.jct_s(None, world.simulator(jobs))
        scheduler = MarlScheduler(checkpoint=str(tmp_path))
        run = simulate(world.simulator(jobs), scheduler, 0, None)
        assert played_s == summarise(run)["jct_mean_s"]


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_vector_is_the_policy_and_back(name: str):
    form, vector, _ = first(name)
    assert np.array_equal(vector_of(form.policy(vector)), vector)
    other = np.random.default_rng(0).normal(size=len(vector)).astype(np.float32).astype(np.float64)
    assert np.array_equal(vector_of(form.policy(other)), other)
    assert np.array_equal(vector_of(form.policy(vector)), vector)
    with pytest.raises(ValueError, match="expected"):
        form.policy(vector[1:])
    assert np.array_equal(first(name)[1], vector)  # drawn from the seed alone


def test_it_begins_as_its_prior():
    form, vector, sigma = first("suspending")
    policy = form.policy(vector)
    tensors = searched(policy)
    for name, tensor in tensors.items():
        begins_as_zero = name.startswith(LAST) or name.endswith("norm.bias")
        assert bool(tensor.any()) != begins_as_zero, name
    assert not [name for name in tensors if "value" in name or "rack_norm" in name]
    prior = policy.prior
    scale, wanted = prior.start_layer.scale.numpy(), SUSPENDING.start_layer.scale
    assert np.array_equal(prior.start.detach().numpy(), SUSPENDING.start.astype(np.float32))
    assert np.array_equal(scale, wanted.astype(np.float32))
    ends = np.cumsum([each.numel() for each in tensors.values()])[:-1]
    far = dict(zip(tensors, np.split(sigma, ends), strict=True))
    given = [far[f"prior.{name}"] for name in ("start", "forward_to", "suspend")]
    assert np.allclose(np.concatenate(given), linear_sigmas(linear_of(SUSPENDING))[0])
    for name, each in far.items():
        if name not in ("prior.start", "prior.forward_to", "prior.suspend"):
            outer = name.startswith(LAST) or name in OUTER
            assert np.all(each == (0.15 if outer else 0.1)), name
    assert set(np.unique(first("zero")[2])) == {0.1, 0.3, 1.0}  # from zero they go further away


HIDDEN = ("wait_over_loss", "prolongs", "holds_up", "wait_difference", "puts_off")


@pytest.mark.parametrize("name", WEIGHTS)
def test_hidden_columns_change_no_score_of_any_member(name: str):
    jobs = RandomJobs(count=30, partitions=2, most_gpus=4, span_s=900.0)(0)
    form, vector, sigma = first(name)
    blind_form, blind_vector, blind_sigma = first(name, *HIDDEN)
    seen = [s for now in play(mixed_world(2), jobs, form.rules, 0) for s in now.seen.values()]
    before = stack(seen[20:40])
    after = {key: value.clone() for key, value in before.items()}
    after["pairs"][..., [OfPair[n.upper()] for n in HIDDEN[:3]]] += 1.0
    columns = [OfForward[n.upper()] for n in ("prolongs", *HIDDEN[3:])]
    after["forwards"][..., columns] += 1.0
    climb = begin(blind_vector, blind_sigma, 0)
    climb = ascend(climb, noise(climb, 0), 0.15)
    for member, reads, what in (
        (members(climb, 1)[0], False, blind_form),
        (members(begin(vector, sigma, 0), 1)[0], True, form),
    ):
        policy = what.policy(member)
        with torch.no_grad():
            one, other = policy(before).logits, policy(after).logits
        assert torch.equal(one, other) != reads
    assert np.count_nonzero(sigma) - np.count_nonzero(blind_sigma) >= 6 * 6


def test_a_name_that_two_arrays_have_hides_in_both_or_in_one_and_others_are_refused():
    both, pair, forward = (
        set(np.flatnonzero(first("plain", name)[1] == 0))
        for name in ("fragments", "pairs.fragments", "forwards.fragments")
    )
    assert both == pair | forward
    assert len(both) > max(len(pair), len(forward))
    with pytest.raises(ValueError, match=r"hide has 'legal'; it takes .*pairs.holds_up, "):
        first("plain", "legal")
    with pytest.raises(ValueError, match=r"hide has 'messages'; .*graph.reach=server"):
        first("plain", "messages")


def member(reach: str) -> PairScorePolicy:
    form, vector, sigma = first("plain", reach=reach)
    climb = begin(vector, sigma, 0)
    return form.policy(members(ascend(climb, noise(climb, 0), 0.15), 1)[0])


@pytest.mark.parametrize("reach", ["cluster", "server"])
def test_by_reach_a_server_hears_of_others_or_does_not(reach: str):
    encoder = member(reach).encoder
    draw, there = torch.Generator().manual_seed(0), torch.ones(1, 3, 2, dtype=torch.bool)
    widths = encoder.gpu.in_features, encoder.sweeps[0].server_up.own.in_features
    x_gpu, x_server = (torch.rand(1, 3, *n, generator=draw) for n in ((2, widths[0]), widths[1:]))
    batch = ClusterBatch(x_gpu, there, x_server, there[..., 0], torch.tensor([[0, 0, 1]]), 2)
    other = batch._replace(x_server=torch.cat([x_server[:, :2], x_server[:, 2:] + 3.0], 1))
    with torch.no_grad():
        before, after = encoder(batch).server, encoder(other).server
    assert torch.equal(before[:, :2], after[:, :2]) == (reach == "server")
    assert not torch.equal(before[:, 2], after[:, 2])


@pytest.mark.parametrize("reach", ["server", "none"])
def test_without_reach_no_score_depends_on_gpus_and_servers(reach: str):
    jobs = RandomJobs(count=30, partitions=2, most_gpus=4, span_s=900.0)(0)
    seen = [s for now in play(mixed_world(2), jobs, RULES, 0) for s in now.seen.values()]
    before, policy = stack(seen[20:40]), member(reach)
    after = {key: value.clone() for key, value in before.items()}
    after["gpus"][..., 1:] += 1.0  # the first says that it is there
    after["servers"][..., 1:] += 1.0
    with torch.no_grad():
        one, other = policy(before).logits, policy(after).logits
    assert torch.equal(one, other) == (reach == "none")


def test_a_checkpoint_holds_the_form(tmp_path):
    form, vector, sigma = first("suspending")
    save(Saved("here", begin(vector, sigma, 0), form, 1.5, ()), tmp_path)
    found = load(tmp_path, "here")
    assert isinstance(found.form, NetworkForm)
    assert (found.form.spec, found.form.rules) == (form.spec, form.rules)
    assert np.array_equal(found.form.fixed, form.fixed)
    assert np.array_equal(vector_of(found.form.policy(found.climb.mean)), vector)


@pytest.mark.parametrize(
    ("there", "branched", "searched"),
    [
        (range(9), [0, 1, 2, 3, 4, 5], [6, 7, 8]),
        ([4, 2, 0], [4, 2, 4, 2, 4, 2], [0]),  # of three windows two are branched, thrice each
        ([7], [7] * 6, [7]),
    ],
)
def test_a_step_is_chosen_on_windows_that_were_not_branched(there, branched, searched):
    drawn = np.resize(list(there), 9).tolist()
    assert apart(drawn, 6, 3) == (branched, searched)


def test_learning_scores_loads_no_torch():
    modules = "gpuyard.training.setting, gpuyard.training.trainer, gpuyard.training.windows"
    seen = f"import sys, {modules}; assert not {{'torch', 'ray'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", seen], cwd=ROOT, check=True)
