"""The network begins as the tuned linear score; compiled, it chooses as the torch module."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numba import njit

from marl.env.actions import MODES, TIE
from marl.env.observe import copy_to
from marl.policy.build import PolicySpec, build_policy
from marl.policy.from_torch import net_of
from marl.policy.linear_prior import LinearPrior
from marl.policy.network import best_action
from marl.policy.pair_score import stack
from sim.scoring import scores
from sim.scoring.ahead import FRAGMENTS_WORTH
from sim.scoring.linear_score import LinearScore
from sim.scoring.room import count_usable, fill_outwards
from sim.scoring.table import ForwardWeight, OfJob, OfPair, StartWeight, SuspendWeight
from sim.scoring.weights import ALL_GROUPS, ScoreWeights
from sim.scoring.window import choose_window, look_at_window, refresh
from tests.marl.playing import Round, forwards_of, play, starts_of
from tests.marl.worlds import RULES, RandomJobs, mixed_world
from tests.sim.test_layer import drawn

RNG = np.random.default_rng(5)
SAID = [ForwardWeight.PROLONGS, ForwardWeight.FRAGMENTS]
START, FORWARD = RNG.normal(size=len(StartWeight)), RNG.normal(size=len(ForwardWeight))
SIZES = {"gpu_dim": 4, "hidden_dim": 8, "rounds": 1, "head_dim": 8}


PLAIN = ScoreWeights(START, FORWARD)
Rest = dict[str, float]
NO_REST: Rest = {"rest_share": 0.0}  # `rest_share`, `rest_most_s`
LAYERED = ScoreWeights(
    START, FORWARD,
    start_layer=drawn(5, len(START), seed=1), forward_layer=drawn(3, len(FORWARD), seed=2),
)  # fmt: skip


def scoring_of(now: Round, rest: Rest = NO_REST, weights: ScoreWeights = PLAIN) -> scores.Scoring:
    scoring = LinearScore(
        window=4, patience_s=1e9, use_durations=True, weights=weights.as_mapping(),
        weights_file=None, **rest,
    ).scoring(now.view)  # fmt: skip
    refresh(scoring.scratch)
    return scoring


def prior(weights: ScoreWeights) -> LinearPrior:
    units = [getattr(weights, f"{group}_layer").size for group in ALL_GROUPS]
    module = LinearPrior(suspends=weights.suspend is not None, units=units)
    module.take(weights)
    return module


def compare(now: Round, agent: int, rest: Rest, weights: ScoreWeights) -> tuple[int, int]:
    """Check every legal start and forward of `agent`; how many of each there were."""
    scoring, window = scoring_of(now, rest, weights), now.window(agent)
    scratch = scoring.scratch
    with torch.no_grad():
        starts, forwards = (x[0].numpy() for x in prior(weights)(stack([now.seen[agent]]))[:2])
    legal = np.argwhere(starts_of(now, agent))
    scores.weigh_partition(scoring, agent)
    choose_window(scratch, agent)
    look_at_window(scratch, agent)
    for row, server, mode in legal.tolist():
        job, here = window[row], scratch.here[0]
        count_usable(scratch, job, agent)
        scores.weigh_job(scoring, job)
        here["server"], here["shared"] = now.servers(agent)[server], mode
        assert fill_outwards(scratch, job, agent)
        score = scores.start_score(scoring, job, agent)
        assert starts[row, server, mode] == pytest.approx(score, rel=1e-4, abs=1e-4)
    sends = np.argwhere(forwards_of(now, agent))
    for row, target in sends.tolist():
        score = scores.forward_score(scoring, row, agent, target)
        assert forwards[row, target] == pytest.approx(score, rel=1e-4, abs=1e-4)
    return len(legal), len(sends)


def jobs_of(partitions: int = 2, count: int = 25) -> RandomJobs:
    return RandomJobs(count=count, partitions=partitions, most_gpus=4, span_s=900.0)


@pytest.mark.parametrize(
    ("partitions", "rest", "max_forwards", "sizes", "weights"),
    [
        (1, NO_REST, 3, 2, PLAIN), (2, NO_REST, 3, 2, PLAIN), (4, NO_REST, 3, 2, PLAIN),
        (2, NO_REST, 6, 2, PLAIN), (2, NO_REST, 3, [1, 3, 2], PLAIN),
        (2, {"rest_share": 1.0}, 3, 2, PLAIN),
        (2, {"rest_share": 2.0, "rest_most_s": 100.0}, 3, 2, PLAIN), (2, NO_REST, 3, 2, LAYERED),
    ],
)  # fmt: skip
def test_the_prior_scores_as_the_linear_score(partitions, rest, max_forwards, sizes, weights):
    starts, sends, modes = 0, 0, set()
    rules = replace(RULES, **rest)
    for seed in range(2):
        world = mixed_world(partitions, sizes, max_forwards=max_forwards)
        for now in play(world, jobs_of(partitions)(seed), rules, seed):
            for agent in now.seen:
                more = compare(now, agent, rest, weights)
                starts, sends = starts + more[0], sends + more[1]
                modes |= set(np.argwhere(starts_of(now, agent))[:, 2].tolist())
    assert starts > 150
    assert modes == set(range(MODES))
    assert (sends > 30) == (partitions > 1)


def effects_of_starts(scoring: scores.Scoring, job: int, target: int) -> list[float]:
    """Prolongs and fragments of the best start of `job` on one server of `target`."""
    scratch = scoring.scratch
    scores.weigh_partition(scoring, target)
    count_usable(scratch, job, target)
    scores.weigh_job(scoring, job)
    part, here, found = scratch.state.partition[target], scratch.here[0], []
    for server in scratch.state.own[part["first_own"] : part["last_own"]]:
        here["server"], here["shared"] = server, 0
        if scratch.server[server]["alone"] >= scratch.job[job]["gang"]:
            assert fill_outwards(scratch, job, target)
            scores.start_score(scoring, job, target)
            found.append(scoring.start_x[[StartWeight.PROLONGS, StartWeight.FRAGMENTS]].tolist())
    return min(found, key=lambda x: x[0] + FRAGMENTS_WORTH * x[1])


def test_a_forward_says_of_its_target_what_a_start_there_would():
    seen = []
    for seed in range(6):
        for now in play(mixed_world(2), jobs_of()(seed), RULES, seed):
            for agent in now.seen:
                scoring, window = scoring_of(now), now.window(agent)
                scratch = scoring.scratch
                for row, target in np.argwhere(forwards_of(now, agent)).tolist():
                    choose_window(scratch, agent)
                    look_at_window(scratch, agent)
                    scores.forward_score(scoring, row, agent, target)
                    said = scoring.forward_x[SAID].tolist()
                    job = window[row]
                    if scratch.job[job]["gang"] <= scratch.partition[target]["largest"]:
                        assert said == pytest.approx(effects_of_starts(scoring, job, target))
                        seen.append(said)
    assert len(seen) > 50
    assert (np.array(seen) > 0).sum(axis=0).min() > 5


def test_a_start_that_is_due_beats_waiting_whatever_it_scores():
    pushed = 0
    for now in play(mixed_world(2), jobs_of()(0), RULES, 0):
        for observation in now.seen.values():
            module = LinearPrior()
            module.take(ScoreWeights(np.full(len(StartWeight), -3.0), FORWARD))
            batch = stack([observation])
            with torch.no_grad():
                calm = module(batch)[0][0]
                batch["jobs"][..., OfJob.OLD] = 1.0  # all are out of patience
                due = module(batch)[0][0]
            compact = batch["pairs"][0, ..., OfPair.COMPACT] > 0
            assert (due[..., 0][compact[..., 0]] >= scores.LEAST_DUE).all()
            rest = ~compact
            rest[..., 1] = True  # sharing is never due
            assert torch.equal(due[rest], calm[rest])
            pushed += int((calm[..., 0][compact[..., 0]] < 0).sum())
    assert pushed > 30


def test_a_fresh_network_with_a_prior_is_the_prior():
    torch.manual_seed(0)
    policy = build_policy(PolicySpec(**SIZES, prior_scale=2.5))
    policy.prior.take(ScoreWeights(START, FORWARD))
    now = next(iter(play(mixed_world(2), jobs_of(count=10)(0), RULES, 0)))
    batch = stack(list(now.seen.values()))
    logits = policy(batch).logits
    starts, forwards, _ = policy.prior(batch)
    wanted = torch.cat([starts.flatten(1), forwards.flatten(1), torch.zeros(len(starts), 1)], 1)
    legal = batch["action_mask"] > 0
    assert torch.allclose(logits[legal], 2.5 * wanted[legal], atol=1e-5)
    logits[legal].sum().backward()  # and everything can still learn
    for name, weights in policy.named_parameters():
        last = name.startswith(("key", "start.score", "forward_to.score", "wait.2", "prior"))
        assert weights.grad is not None or not last
        if last and not name.startswith("prior"):
            assert not weights.any()


@pytest.mark.parametrize("lengths", [(19, 11), (20, 12), (0, 11)])
def test_the_prior_takes_a_weight_for_each_feature_and_no_more(lengths):
    with pytest.raises(ValueError, match=r"it takes \d+: bias, "):
        LinearPrior().take(ScoreWeights(*(np.zeros(length) for length in lengths)))


RANDOM = np.random.default_rng(3)
WEIGHTS = ScoreWeights(
    RANDOM.normal(size=len(StartWeight)), RANDOM.normal(size=len(ForwardWeight)),
    start_layer=drawn(5, len(StartWeight)), suspend=RANDOM.normal(size=len(SuspendWeight)),
    suspend_layer=drawn(4, len(SuspendWeight)),
)  # fmt: skip
NET_SIZES = {"gpu_dim": 6, "hidden_dim": 8, "rounds": 1, "head_dim": 12}
SPECS = {
    "plain": PolicySpec(**NET_SIZES, prior_scale=0.0),
    "prior": PolicySpec(**NET_SIZES, prior_scale=2.0),
    "suspends": PolicySpec(
        **NET_SIZES, prior_scale=1.5, suspends=True, start_units=5, suspend_units=4
    ),
    "as it begins": PolicySpec(**NET_SIZES, prior_scale=2.0),
    "datacenter": PolicySpec(**NET_SIZES, prior_scale=1.5, suspends=True, datacenter=True),
}


@pytest.mark.parametrize("sizes", [2, [1, 3, 2]], ids=["even", "uneven"])
@pytest.mark.parametrize("name", SPECS)
def test_it_chooses_what_the_torch_module_chooses(name: str, sizes: int | list[int]):
    spec = SPECS[name]
    torch.manual_seed(1)
    policy = build_policy(spec).eval()
    begins = name == "as it begins"  # beside a prior heads are zero then: nothing is encoded
    with torch.no_grad():
        for each in () if begins else policy.parameters():
            each.add_(0.3 * torch.randn_like(each))
    if policy.prior is not None:
        policy.prior.take(WEIGHTS if spec.suspends else replace(WEIGHTS, suspend=None))
    rules = replace(RULES, suspends=spec.suspends, datacenter=spec.datacenter, only_placeable=False)
    net, turns = None, 0
    for seed in range(2):
        jobs = RandomJobs(count=30, partitions=2, most_gpus=4, span_s=900.0)(seed)
        for now in play(mixed_world(2, sizes), jobs, rules, seed):
            layout = now.rounds.layout
            net = net_of(policy, layout) if net is None else net
            assert net is not None
            assert net.speaks != begins
            for seen in now.seen.values():
                with torch.no_grad():
                    logits = policy(stack([seen])).logits[0].double().numpy()
                buffers = now.rounds.play(now.view).buffers
                chosen = best_action(net, buffers, layout.sizes.table())
                assert seen["action_mask"][chosen] == 1
                assert logits[chosen] >= logits.max() - 2 * 10.0**-TIE
                turns += 1
    assert turns > 100


def test_encoders_that_are_not_compiled_say_so():
    policy = build_policy(PolicySpec(**(NET_SIZES | {"rounds": 2}), prior_scale=0.0))
    jobs = RandomJobs(count=3, partitions=2, most_gpus=4, span_s=900.0)(0)
    now = next(iter(play(mixed_world(2), jobs, RULES, 0)))
    assert net_of(policy, now.rounds.layout) is None
    flat = build_policy(PolicySpec(**NET_SIZES, prior_scale=0.0, encoder="flat"))
    assert net_of(flat, now.rounds.layout) is None


def test_doubles_become_floats_one_by_one():
    """In vectors they would make every logarithm after them slow (`sim.handle.one_by_one`)."""
    copied = njit(copy_to.py_func)
    copied(np.arange(11.0), np.zeros(11, dtype=np.float32))
    assert "vcvtpd2ps" not in "".join(copied.inspect_asm().values())
