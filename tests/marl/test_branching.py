"""Paired branches: what was tried is legal, costs are exact, and networks learn from them."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from marl.env.actions import FORWARD, KINDS, WAIT
from marl.env.layout import Observation, layout_for
from marl.env.turns import Turns
from marl.policy.branching import Brancher, Contrasts, Sampling, cost_now, joined
from marl.policy.build import build_policy
from marl.policy.pair_score import PairScorePolicy, best_action
from marl.training.episodes import play_greedily
from marl.training.teaching import Clipping, Teaching, improved, taught
from sim.run import Kind
from sim.simulator import Simulator
from sim.topology.outages import Change
from tests.marl.worlds import RULES, SMALL, RandomJobs, loud_policy, mixed_world, plain_world
from tests.sim.worlds import Job, changes, fates, job_table

WORLD = mixed_world(2)
LAYOUT = layout_for(WORLD.topology, WORLD.partition_of_server, RULES)
JOBS = RandomJobs(count=24, partitions=2, most_gpus=6, span_s=1800.0)
SAMPLING = Sampling(alternatives=2, horizon_s=1e9, temperature=1.0, uniform=0.5)
TEACHING = Teaching(
    epochs=40, batch=16, learning_rate=0.01, weight_decay=0.0, unit_s=1000.0, step=1.0,
    temperature=1e9,
)  # fmt: skip
CLIPPING = Clipping(
    epochs=40, batch=16, learning_rate=0.01, weight_decay=0.0, unit_s=1000.0, clip=0.2
)


def simulator() -> Simulator:
    return WORLD.simulator(JOBS(3))


def turns() -> Turns:
    return Turns(simulator(), LAYOUT, RULES, gathers=False)


def branched(policy: PairScorePolicy, seed: int = 0, **given: float) -> Contrasts:
    found = Brancher(policy, RULES, replace(SAMPLING, **given)).contrasts(simulator(), seed, 30)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def found() -> Contrasts:
    """Of a network whose choices differ."""
    return branched(loud_policy(SMALL, 1))


def logits_of(policy: PairScorePolicy, seen: Observation) -> torch.Tensor:
    with torch.no_grad():
        return policy({name: torch.from_numpy(value) for name, value in seen.items()}).logits


def act(run: Turns, policy: PairScorePolicy) -> None:
    """As the torch module does."""
    seen = {name: value[None] for name, value in run.seen().items()}
    run.act(best_action(logits_of(policy, seen))[0])


def played(run: Turns, policy: PairScorePolicy) -> float:
    """Sum of JCT in seconds of a run played on to its end."""
    while run.next():
        act(run, policy)
    rows = run.simulator.state.job
    return float((rows["finish_s"] - rows["submit_s"]).sum())


def test_what_is_tried_is_legal_and_another_than_what_the_network_does(found: Contrasts):
    policy = loud_policy(SMALL, 1)
    rows = np.arange(len(found))
    mask = found.observations["action_mask"][found.turn]
    assert len(found) > 20
    assert mask[rows, found.tried].all()
    assert (found.tried != found.taken).all()
    assert (found.gap >= 0).all()
    chosen = np.array(best_action(logits_of(policy, found.observations)))
    assert (chosen[found.turn] == found.taken).all()


def test_costs_are_those_of_whole_runs_with_one_action_changed(found: Contrasts):
    policy = loud_policy(SMALL, 1)
    run = turns()
    unchanged = played(run.fork(), policy)
    checked = 0
    while run.next():
        seen = run.seen()
        for row in range(len(found)):
            turn = {name: each[found.turn[row]] for name, each in found.observations.items()}
            if all(np.array_equal(turn[name], seen[name]) for name in seen):
                branch = run.fork()
                branch.act(int(found.tried[row]))
                assert played(branch, policy) - unchanged == pytest.approx(found.cost_s[row], abs=1)
                checked += 1
        act(run, policy)
    assert checked >= len(found)


def test_a_horizon_counts_what_is_left_to_do():
    run = turns()
    assert run.next()
    now_s, rows = run.simulator.now_s, run.simulator.state.job
    come = rows["submit_s"] < now_s
    left = (now_s - rows["submit_s"] + rows["work_s"])[come].sum()
    assert cost_now(run.simulator.state) == pytest.approx(left)


def test_a_branch_whose_jobs_wait_for_ever_costs_their_wait_up_to_the_horizon():
    # The gang of both servers has to start before one of them goes for good.
    world = plain_world(2, 2, outages=changes((50.0, 1, Change.FAIL)))
    jobs = job_table([Job(0.0, 4, 30.0), Job(0.0, 1, 100.0)])
    sampling = replace(SAMPLING, alternatives=9, horizon_s=1000.0, uniform=1.0)
    brancher = Brancher(scoring_nothing(), RULES, sampling)
    found = brancher.contrasts(world.simulator(jobs), 0, 3)
    assert found is not None
    # Gang first: 30 and 30 + 100. The other first: 1000 and 30 still to do, and 100.
    assert found.cost_s.max() == pytest.approx(1030.0 + 100.0 - 160.0)


def test_a_run_stops_at_its_horizon_where_nobody_has_a_choice():
    world = plain_world(1, 2)
    gangs = [Job(0.0, 2, 60.0), Job(10.0, 2, 100.0), Job(80.0, 1, 10.0)]
    layout = layout_for(world.topology, world.partition_of_server, RULES)
    run = Turns(world.simulator(job_table(gangs)), layout, RULES, gathers=False)
    run.stop_at(50.0)
    while run.next():
        run.act(int(run.seen()["action_mask"].argmax()))
    assert run.now_s == 50.0
    assert cost_now(run.simulator.state) == pytest.approx(60.0 + (40.0 + 100.0))


@pytest.mark.parametrize(
    ("gives_up_s", "delay_s"),
    [  # B waits for A's end at 10, C for B's
        ((np.inf, np.inf, np.inf), 10.0 + 15.0),
        ((np.inf, 4.0, np.inf), 4.0 + 10.0),  # B leaves without having run
        ((np.inf, 12.0, np.inf), 10.0 + 12.0),  # B leaves with 2 s of its 5 s done
    ],
)
def test_who_is_withdrawn_costs_the_delay_that_agents_are_charged(
    gives_up_s: tuple[float, ...], delay_s: float
):
    world = plain_world(1, 1)
    gangs = [Job(0.0, 1, 10.0), Job(0.0, 1, 5.0), Job(0.0, 1, 50.0)]
    jobs = job_table(gangs, **fates(*gives_up_s))
    layout = layout_for(world.topology, world.partition_of_server, RULES)
    run = Turns(world.simulator(jobs), layout, RULES, gathers=True)
    for stop_s in (20.0, np.inf):  # C still runs, or all is over
        run.stop_at(stop_s)
        while run.next():
            run.act(int(run.seen()["action_mask"].argmax()))
        cost_s = cost_now(run.simulator.state)
        assert cost_s - jobs.duration_s.sum() == pytest.approx(delay_s)
    assert run.take().delay_s.sum() == pytest.approx(delay_s)


def test_a_seed_repeats_and_another_looks_elsewhere(found: Contrasts):
    policy = loud_policy(SMALL, 1)
    assert np.array_equal(found.cost_s, branched(policy).cost_s)
    assert not np.array_equal(found.tried, branched(policy, seed=1).tried)


def test_a_network_that_scores_nothing_tries_all_kinds():
    found = branched(scoring_nothing(), uniform=1.0)
    assert (found.gap == 0).all()
    assert {bool(action == LAYOUT.wait) for action in found.tried.tolist()} == {True, False}


def scoring_nothing() -> PairScorePolicy:
    return build_policy(replace(SMALL, prior_scale=1.0))  # all weights of the score are 0


@cache
def lesson(make: Callable[[], PairScorePolicy]) -> Contrasts:
    """Branches in which waiting costs much, and forwards save as much over starts."""
    policy = make()
    found = joined([branched(policy, seed=seed, uniform=1.0) for seed in range(4)])
    sizes = LAYOUT.sizes
    worth = np.zeros(sizes.first(len(KINDS)))
    worth[sizes.first(FORWARD) :] = 1.0
    worth[sizes.first(WAIT)] = -1.0
    return replace(found, cost_s=1e6 * (worth[found.taken] - worth[found.tried]))


def loud() -> PairScorePolicy:
    return loud_policy(SMALL, 1)


def all_of(policy: PairScorePolicy) -> dict[str, torch.Tensor]:
    """Masks that hold nothing back."""
    return {name: torch.ones_like(each) for name, each in policy.named_parameters()}


def test_who_knows_the_future_never_pays_more_and_pays_less_than_chance():
    policy = loud_policy(SMALL, 1)
    (plain,) = play_greedily(policy, [simulator()], RULES, name="marl")
    plain_s = plain.finish_s - plain.jobs.submit_s
    for temperature, most in ((1.0, 0.95), (1e-9, 1.0)):  # the second tries ties alone
        sampling = replace(SAMPLING, temperature=temperature, uniform=0.0)
        run = Brancher(policy, RULES, sampling).in_hindsight(simulator(), seed=0)
        assert (run.finish_s - run.jobs.submit_s).sum() <= most * plain_s.sum()
        assert run.log.kind.tolist().count(Kind.FINISH) == len(run.jobs)


def test_scores_move_by_what_actions_cost():
    policy, found = loud(), lesson(loud)
    before = gaps(policy, found)
    assert taught(policy, [found], TEACHING, all_of(policy), seed=0) > 0.5
    moved = gaps(policy, found) - before
    for sign in (-1, 1):  # what costs more than the unit counts as it
        there = np.sign(found.cost_s) == sign
        assert there.sum() > 10
        assert np.mean(-sign * moved[there]) > 0.5


def test_scores_that_stay_explain_nothing_of_what_actions_cost():
    policy = loud()  # whose own scores are far from 0, as those of any later round
    still = replace(TEACHING, epochs=2, learning_rate=1e-12)
    assert taught(policy, [lesson(loud)], still, all_of(policy), seed=0) == pytest.approx(
        0.0, abs=1e-4
    )


@pytest.mark.parametrize("steps", [1, 2, 8, 9, 10])  # at 9 the rate would rise in no time at all
def test_few_steps_are_taken_too(steps: int):
    policy, before = loud(), loud().key.weight
    given = replace(TEACHING, epochs=steps, batch=10**6)
    assert np.isfinite(taught(policy, [lesson(loud)], given, all_of(policy), seed=0))
    moved = float((policy.key.weight - before).detach().abs().max())
    assert 0.0 < moved <= 1.01 * steps * given.learning_rate


def gaps(policy: PairScorePolicy, found: Contrasts) -> np.ndarray:
    """(L,) logit of the tried action - that of the taken one."""
    logits = logits_of(policy, found.observations).numpy()[found.turn]
    rows = np.arange(len(found))
    return logits[rows, found.tried] - logits[rows, found.taken]


def test_chances_move_to_what_costs_less_and_no_further_than_the_clip():
    policy, found = loud(), lesson(loud)
    masks, before = all_of(policy), gaps(policy, found)
    saved_s = improved(policy, [found], CLIPPING, masks, seed=0)
    near = gaps(policy, found) - before
    for sign in (-1, 1):
        assert np.mean(-sign * near[np.sign(found.cost_s) == sign]) > 0.1
    assert saved_s > 0.0
    bold = loud()
    assert improved(bold, [found], replace(CLIPPING, clip=1e9), masks, seed=0) > 1.2 * saved_s
    assert np.abs(gaps(bold, found) - before).mean() > 1.5 * np.abs(near).mean()


@pytest.mark.parametrize(("teach", "told"), [(taught, TEACHING), (improved, CLIPPING)])
def test_what_is_masked_stays_and_the_prior_moves_by_ppo_alone(teach, told):
    policy = scoring_nothing()
    masks = all_of(policy)
    masks["start.of_pair.weight"][:, 2] = 0.0
    before = policy.start.of_pair.weight.detach().clone()
    prior = {name: each.detach().clone() for name, each in policy.prior.named_parameters()}
    given = replace(told, epochs=2, weight_decay=0.1)
    teach(policy, [lesson(scoring_nothing)], given, masks, seed=0)
    after = policy.start.of_pair.weight.detach()
    assert torch.equal(before[:, 2], after[:, 2])
    assert not torch.equal(before, after)
    if teach is taught:
        assert all(torch.equal(prior[key], each) for key, each in policy.prior.named_parameters())
    else:
        assert not torch.equal(prior["start"], policy.prior.start)
