"""Agents that may suspend running jobs for others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from marl.env.actions import SUSPEND
from marl.policy.build import build_policy, load_policy, save_policy
from marl.policy.linear_prior import LinearPrior
from marl.policy.pair_score import stack
from sim.run import Kind
from sim.scoring.scores import suspend_score, weigh_newcomer
from sim.scoring.suspending import best_room
from sim.scoring.table import OfSuspension
from sim.scoring.window import choose_window, look_at_window
from tests.marl.playing import play, rounds_forked, suspensions_of, tried
from tests.marl.test_linear_prior import WEIGHTS, scoring_of
from tests.marl.worlds import RULES, SMALL, RandomJobs, mixed_world

SUSPENDING = replace(RULES, suspends=True)
BUSY = RandomJobs(count=40, partitions=2, most_gpus=6, span_s=1500.0)
SPEC = replace(SMALL, prior_scale=2.0, suspends=True, start_units=5, suspend_units=4)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_legal_is_accepted_and_all_jobs_end(seed: int):
    simulator, suspended, elsewhere = None, 0, 0
    for now in play(mixed_world(), BUSY(seed), SUSPENDING, seed):
        simulator, layout = now.simulator, now.rounds.layout
        for agent in now.seen:
            for row, target in np.argwhere(suspensions_of(now, agent)).tolist():
                twin = rounds_forked(now.rounds, now.view)  # its turn is this one
                twin.observe(now.view, everyone=False)
                action = layout.sizes.action(SUSPEND, row, target)
                decision = twin.decide(now.view, {agent: action})
                job = now.window(agent)[row]
                assert [start.job for start in decision.starts] == [job]
                assert len(decision.preempts) > 0
                left_s = np.maximum(now.view.jobs.predicted_remaining_s, 60.0)
                assert left_s[list(decision.preempts)].min() > left_s[job]
                assert [f.partition for f in decision.forwards] == [target] * (target != agent)
                tried(now.simulator, decision)
                suspended, elsewhere = suspended + 1, elsewhere + (target != agent)
    assert simulator is not None and simulator.finished() == 40
    assert suspended > 20 and elsewhere > 5
    log = simulator.outcome("run", 0, 0.0, 0.0).log
    stops = log.kind == Kind.PREEMPT
    assert stops.sum() > 3
    # nobody is suspended twice, or started and suspended, at one instant
    once = set(zip(log.time_s[stops].tolist(), log.job[stops].tolist(), strict=True))
    assert len(once) == stops.sum()
    order = list(zip(log.time_s.tolist(), log.job.tolist(), log.kind.tolist(), strict=True))
    for at in np.flatnonzero(stops).tolist():
        time_s, job, _ = order[at]
        assert (time_s, job, Kind.START) not in order[:at]


def test_waste_counts_workers_that_stop_each_though_they_share_gpus():
    sharing = 0
    for now in play(mixed_world(), BUSY(0), SUSPENDING, 0):
        view, layout = now.view, now.rounds.layout
        for agent, seen in now.seen.items():
            for row, target in np.argwhere(suspensions_of(now, agent)).tolist():
                twin = rounds_forked(now.rounds, view)
                twin.observe(view, everyone=False)
                decision = twin.decide(view, {agent: layout.sizes.action(SUSPEND, row, target)})
                held = [gpu for job in decision.preempts for gpu in view.gpus_of(job).tolist()]
                place = decision.starts[0].gpus
                empty = sum(map(now.empty, np.unique(view.topology.gpu_server[place]).tolist()))
                waste = (len(held) + empty - len(place)) / 2  # GPUs of a server
                assert seen["suspensions"][row, target, OfSuspension.WASTE] == waste
                sharing += len(held) > len(set(held))
    assert sharing > 0


def test_the_prior_scores_suspensions_as_the_linear_score():
    prior, compared, before_s = LinearPrior(suspends=True, units=(5, 0, 4)), 0, -1.0
    prior.take(WEIGHTS)
    for now in play(mixed_world(), BUSY(1), SUSPENDING, 1):
        if now.view.now_s <= before_s:
            continue  # somebody may have been started at this instant
        before_s = now.view.now_s
        for agent, seen in now.seen.items():
            scoring = scoring_of(now, weights=WEIGHTS)
            scoring.scratch.scalars["decision"] = 1  # nobody was started at this instant
            choose_window(scoring.scratch, agent)
            look_at_window(scoring.scratch, agent)
            with torch.no_grad():
                found = prior(stack([seen]))[2]
            for row, target in np.argwhere(suspensions_of(now, agent)).tolist():
                job = now.window(agent)[row]
                assert best_room(scoring.scratch, job, agent, target) >= 0
                weigh_newcomer(scoring, job)
                score = suspend_score(scoring, job, agent, target)
                assert found[0, row, target] == pytest.approx(score, rel=1e-4, abs=1e-4)
                compared += 1
    assert compared > 10


def test_what_is_not_legal_is_all_zero_and_what_is_says_so():
    for now in play(mixed_world(), BUSY(2), SUSPENDING, 2):
        for agent, seen in now.seen.items():
            legal = suspensions_of(now, agent)
            assert np.array_equal(seen["suspensions"][..., OfSuspension.LEGAL] > 0, legal)
            assert not seen["suspensions"][~legal].any()
    now = next(iter(play(mixed_world(), BUSY(0), RULES, 0)))  # without the rule
    assert all("suspensions" not in seen for seen in now.seen.values())


def test_a_policy_that_suspends_is_saved_and_scores_every_action(tmp_path: Path):
    policy = build_policy(SPEC)
    policy.prior.take(WEIGHTS)
    save_policy(tmp_path, policy, SPEC, SUSPENDING)
    again, spec, rules = load_policy(tmp_path)
    assert (spec, rules) == (SPEC, SUSPENDING)
    seen = 0
    for now in play(mixed_world(), BUSY(3), SUSPENDING, 3):
        for observation in now.seen.values():
            with torch.no_grad():
                logits, told = (each(stack([observation])).logits for each in (again, policy))
            assert logits.shape == (1, now.rounds.layout.actions)
            assert torch.equal(logits, told)
            seen += 1
    assert seen > 20


def test_weights_that_do_not_fit_the_rule_are_refused():
    with pytest.raises(ValueError, match="agents may not suspend"):
        LinearPrior().take(WEIGHTS)
    with pytest.raises(ValueError, match="no weights of suspensions"):
        LinearPrior(suspends=True).take(replace(WEIGHTS, suspend=None))
