"""Worker by worker: what is reachable, that nothing dead-ends, and that the rest stays as it is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marl.env.actions import MODES, SHARED
from marl.env.layout import NEEDS, WORKER, CodecRules
from marl.env.plays import Rounds
from marl.env.world import World
from sim.decision import Decision, Start
from sim.jobs import JobTable
from tests.marl import worlds
from tests.marl.playing import amid_gang, play, rounds_forked, rounds_of, tried
from tests.sim.worlds import Job, cluster, job_table, physics_of

WORKERS = replace(worlds.RULES, granularity=WORKER)
CASES = st.tuples(st.sampled_from([1, 2]), st.integers(0, 2**20), st.booleans())


def case(partitions: int, seed: int, sharing: bool) -> tuple[World, JobTable, CodecRules]:
    jobs = worlds.RandomJobs(count=14, partitions=partitions, most_gpus=6, span_s=900.0)(seed)
    rules = replace(WORKERS, window=3, sharing=sharing, patience_s=150.0)
    return worlds.mixed_world(partitions), jobs, rules


@settings(max_examples=12)
@given(CASES)
def test_whoever_begins_a_gang_completes_it_in_as_many_turns_as_it_has_workers(drawn):
    world, jobs, rules = case(*drawn)
    rng = np.random.default_rng(drawn[1])
    started, begun = 0, None
    simulator = world.simulator(jobs)
    views, rounds = simulator.views(NEEDS), rounds_of(world, rules)
    while simulator.advance():
        rounds.open()
        assert begun is None  # no time passes amid a gang
        while seen := rounds.observe(views.view(), everyone=False):
            ((agent, observation),) = seen.items()
            mask, layout = observation["action_mask"], rounds.layout
            if begun is not None:
                whose, row, mode, _ = begun
                assert agent == whose
                legal = np.flatnonzero(mask)
                assert len(legal) > 0  # never a dead end
                assert (legal < layout.starts).all()  # no wait, no forward
                assert (legal // (layout.servers * MODES) == row).all()
                assert (legal % MODES == mode).all()
            action = worlds.any_legal(rng, observation)
            decision = rounds.decide(views.view(), {agent: action})
            begun, done = followed(begun, agent, action, decision, rounds)
            started += done
            simulator.apply(decision)  # raises InvalidDecision if it is refused
    assert started == len(jobs)


def followed(begun, agent: int, action: int, decision: Decision, rounds: Rounds):
    """What is begun after an action: (agent, row, mode, workers); and the gangs it completes."""
    if action >= rounds.layout.starts:
        return None, 0
    row, place = divmod(action, rounds.layout.servers * MODES)
    workers = 1 if begun is None else begun[3] + 1
    if not decision.starts:
        return (agent, row, place % MODES, workers), 0
    assert len(decision.starts[0].gpus) == workers
    return None, 1


def placements(rounds: Rounds, view, simulator) -> set[tuple[int, tuple[int, ...]]]:
    """(job, GPUs) of every start that can be reached by an agent's turns from here."""
    found = set()
    seen = rounds.observe(view, everyone=False)
    for agent, observation in seen.items():
        for action in np.flatnonzero(observation["action_mask"][: rounds.layout.starts]).tolist():
            branch = rounds_forked(rounds, view)
            for start in branch.decide(view, {agent: action}).starts:
                found.add((start.job, tuple(sorted(start.gpus.tolist()))))
            if amid_gang(branch.play(view)):
                found |= placements(branch, view, simulator)
    return found


@settings(max_examples=8)
@given(st.integers(0, 2**20))
def test_all_that_gangs_can_reach_workers_can_reach_and_the_simulator_accepts_it(seed: int):
    world, jobs, rules = case(2, seed, True)
    jobs.num_gpus[jobs.num_gpus > 3] = 3
    whole = replace(rules, granularity="gang")
    looked, more = 0, 0
    for now in play(world, jobs, whole, seed):
        if looked == 12 or not now.seen:
            continue
        looked += 1
        reached = []
        for each in (whole, rules):
            rounds = rounds_of(world, each)
            rounds.play(now.view).memory.waited[:] = now.rounds.play(now.view).memory.waited
            reached.append(placements(rounds, now.view, now.simulator))
        assert reached[0] <= reached[1]
        more += len(reached[1]) > len(reached[0])
        for job, gpus in sorted(reached[1]):
            tried(now.simulator, Decision(starts=(Start(job, np.array(gpus)),)))
    assert looked > 0


def test_workers_can_be_spread_where_gangs_cannot():
    # Two servers of two GPUs. A gang of two goes to one of them, or one worker each.
    world = worlds.plain_world(2, 2)
    trace = job_table([Job(0, 2, 10)])
    found = {}
    for rules in (worlds.RULES, WORKERS):
        simulator = world.simulator(trace)
        simulator.advance()
        rounds = rounds_of(world, rules)
        view = simulator.views(NEEDS).view()
        found[rules.granularity] = {g for _, g in placements(rounds, view, simulator)}
    assert found["gang"] == {(0, 1), (2, 3)}
    assert found["worker"] == {(0, 1), (2, 3), (0, 2)}


def test_a_pair_row_is_that_of_the_gang_completed_outwards():
    # Three servers of two GPUs: once a worker is on server 0, its row says one server if the next
    # goes there too, and two if it goes to another.
    world = worlds.plain_world(
        3, 2, physics=physics_of(cluster(3, 2), server_s=[0.0, 0.0, 1.0, 2.0])
    )
    env = worlds.env_of(world, lambda _: job_table([Job(0, 2, 10)]), rules=WORKERS)
    observation = env.reset(seed=0)[0]["agent_0"]
    assert observation["pairs"][0, :3, 0, 6].tolist() == pytest.approx([1 / 8] * 3)
    observation = env.step({"agent_0": 0})[0]["agent_0"]
    assert observation["pairs"][0, :3, 0, 6].tolist() == pytest.approx([1 / 8, 2 / 8, 2 / 8])
    assert observation["pairs"][0, 1, 0, 1] == pytest.approx(np.log(2.0))  # 1 s + 1 s over 1 s
    assert observation["pairs"][0, :, SHARED].sum() == 0
    assert observation["action_mask"][-1] == 0


def test_nothing_is_earned_amid_a_gang():
    env = worlds.env_of(worlds.mixed_world(), worlds.MIXED_JOBS, rules=WORKERS)
    rng = np.random.default_rng(0)
    observations, _ = env.reset(seed=0)
    amid = 0
    while env.agents:
        ((agent, observation),) = observations.items()
        action = worlds.any_legal(rng, observation)
        observations, rewards, *_ = env.step({agent: action})
        if amid_gang(env.turns.play):
            amid += 1
            assert set(observations) == {agent}
            assert set(rewards.values()) == {0.0}
    assert amid > 10
