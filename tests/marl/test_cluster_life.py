"""Agents where servers come and go, jobs ask for more than GPUs, fail, wait for parents, leave."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marl.env.actions import MODES
from marl.env.layout import NEEDS
from marl.env.observe import begin_turn
from marl.env.scheduling_env import SchedulingEnv
from marl.env.world import World
from marl.rllib.algorithm import RllibSchedulingEnv
from sim.errors import SimulationError
from sim.jobs import Attempts, JobTable
from sim.run import Kind
from sim.scoring.window import refresh
from sim.topology.outages import NO_OUTAGES, Change, Outages
from sim.topology.topology import Topology
from tests.marl import worlds
from tests.marl.playing import forwards_of, play, starts_of, tried
from tests.oracle.cases import Case, cases
from tests.oracle.room import Room
from tests.sim.worlds import (
    Job,
    changes,
    cluster,
    demands,
    fates,
    job_table,
    parts,
    physics_of,
    rules_of,
    waiting,
)


def seen_bytes(world: World, jobs: JobTable, seed: int) -> list[bytes]:
    """What all agents see in a random world."""
    return [
        observation[key].tobytes()
        for now in play(world, jobs, worlds.RULES, seed)
        for _, observation in sorted(now.seen.items())
        for key in sorted(observation)
    ]


@pytest.mark.parametrize("seed", [0, 1])
def test_outages_to_come_and_demands_that_bind_nothing_change_no_bit(seed: int):
    jobs, world = worlds.MIXED_JOBS(seed), worlds.mixed_world()
    plain = seen_bytes(world, jobs, seed)
    assert len(plain) > 100
    later = replace(world, outages=changes((1e9, 0, Change.FAIL), (2e9, 0, Change.OPEN)))
    assert seen_bytes(later, jobs, seed) == plain
    modest = replace(jobs, **demands(*[(1000, 1, 1, 3)] * len(jobs)))
    assert seen_bytes(world, modest, seed) == plain
    roomy = replace(
        world.topology, server_cpu_milli=np.full(8, 1000), server_memory_mib=np.full(8, 1000)
    )
    assert seen_bytes(replace(world, topology=roomy), modest, seed) == plain


def without(topology: Topology, server: int) -> Topology:
    """The cluster with one server fewer."""
    kept = np.arange(topology.num_servers) != server
    sizes = topology.gpus_per_server[kept]
    return replace(
        topology, gpu_server=np.repeat(np.arange(len(sizes)), sizes),
        server_first_gpu=np.concatenate([[0], np.cumsum(sizes)]),
        server_gpu_type=topology.server_gpu_type[kept], server_rack=topology.server_rack[kept],
        nic_gbps=topology.nic_gbps[kept], intra_gbps=topology.intra_gbps[kept], links=None,
    )  # fmt: skip


def test_a_server_that_is_away_is_not_there():
    # Partition 0 owns servers 0 to 3; the last of them is away all the time. What every agent sees
    # in a world of equal choices is what it sees in a cluster built without that server.
    whole = cluster(8, 2, servers_per_rack=2, types=("x", "y"))
    physics = worlds.rich_physics(whole)
    away = worlds.world_of(whole, 2, physics=physics, outages=changes((0.0, 3, Change.CLOSE)))
    small = replace(
        away,
        topology=without(whole, 3),
        outages=changes((0.0, 0, Change.CLOSE), (0.0, 0, Change.OPEN)),
        partition_of_server=np.array([0, 0, 0, 1, 1, 1, 1]),
    )
    jobs = worlds.MIXED_JOBS(2)
    rules = replace(worlds.RULES, only_placeable=False)
    one, other = ([n.seen for n in play(w, jobs, rules, 3) if n.seen] for w in (away, small))
    assert len(one) == len(other) > 40
    for mine, theirs in zip(one, other, strict=True):
        assert mine.keys() == theirs.keys()
        for agent, observation in mine.items():
            for key in observation.keys() - {"server_rack"}:  # read for servers that are there only
                assert np.array_equal(observation[key], theirs[agent][key]), (agent, key)


def test_a_partition_without_a_server_sends_its_jobs_away_and_divides_by_nothing():
    # Server 0 is all that partition 0 has; it is away from 5 to 50. The gang of 2 that arrives
    # there meanwhile can only leave, although its home has as many GPUs.
    gone = changes((5.0, 0, Change.FAIL), (50.0, 0, Change.OPEN))
    world = worlds.plain_world(2, 2, 2, 1, outages=gone, max_forwards=1, max_tenants=2)
    trace = job_table([Job(0, 1, 3, home=1), Job(10, 2, 4)])
    now = next(now for now in play(world, trace, worlds.RULES, 0) if now.view.now_s == 10)
    assert not starts_of(now, 0).any()
    assert forwards_of(now, 0)[0].tolist() == [False, True]
    seen = now.seen[0]
    assert all(np.isfinite(array).all() for array in seen.values())
    assert not seen["servers"].any()
    assert not seen["gpus"].any()
    assert seen["peers"][0, 4:6].tolist() == [0.0, 0.0]  # none empty, no gang placeable
    assert seen["context"][[0, 4]].tolist() == [0.0, 0.0]


def test_nobody_is_forced_to_start_or_to_forward_where_servers_are_away():
    # The patience of 1 s is long over when the server comes back at 50.
    gone = changes((5.0, 0, Change.FAIL), (6.0, 1, Change.FAIL), (50.0, 0, Change.OPEN))
    rules = replace(worlds.RULES, patience_s=1.0, only_placeable=False)
    world = worlds.plain_world(2, 2, 2, 1, outages=gone, max_tenants=2)
    trace = job_table([Job(10, 2, 4), Job(60, 1, 4, home=1)], **fates(np.inf, 5.0))
    rounds = iter(play(world, trace, rules, 0))
    arrival = next(rounds)
    assert (arrival.view.now_s, arrival.seen) == (10.0, {})
    back = next(rounds)
    assert back.view.now_s == 50.0
    assert starts_of(back, 0)[0, 0].tolist() == [True, False]
    assert not back.seen[0]["action_mask"][-1]


def test_jobs_that_only_absent_servers_can_hold_do_not_fill_the_window():
    # One place in the window. A (gang of 4, the shorter) needs both servers, server 1 is away.
    gone = changes((0.0, 1, Change.CLOSE), (30.0, 1, Change.OPEN))
    world = worlds.plain_world(2, 2, outages=gone, max_tenants=2)
    trace = job_table([Job(1, 4, 5), Job(1, 2, 10)])
    rules = replace(worlds.RULES, window=1)
    run = [now for now in play(world, trace, rules, 0) if now.seen and not now.pressed]
    assert [int(np.round(2 ** (now.seen[0]["jobs"][0, 1] * 4))) for now in run] == [2, 4]
    assert [now.view.now_s for now in run] == [1.0, 30.0]


def test_forwards_lead_to_servers_of_the_right_type_only():
    # Servers 0 and 1 have type x, 2 has y, one partition each; the job wants x and is at y's.
    topology = cluster(3, 1, servers_per_rack=1, types=("x", "y"))
    kinds = replace(topology, server_gpu_type=np.array([0, 0, 1]))
    physics = physics_of(kinds, compute_s=(1.0, 1.0))
    world = worlds.world_of(kinds, 3, physics=physics, max_tenants=1)
    trace = job_table([Job(0, 1, 5, home=2)], **demands((1000, 0, 0, 1)))
    first = next(iter(play(world, trace, worlds.RULES, 0)))
    assert not starts_of(first, 2).any()
    assert forwards_of(first, 2)[0].tolist() == [True, True, False]


def test_parts_of_a_gpu_share_up_to_the_whole_and_cost_by_their_part():
    # A (400) runs on the only GPU; B (500) may join, C (700) may not: at most a GPU in all.
    topology = cluster(1, 1)
    physics = physics_of(topology, slowdown=((2.0,),))
    rules = rules_of(max_tenants=2, gpu_oversubscription=1)
    world = replace(worlds.world_of(topology, 1, physics=physics), rules=rules)
    jobs = [Job(0, 1, 50), Job(5, 1, 9, 9.0), Job(5, 1, 10, 10.0)]
    trace = job_table(jobs, **parts(400, 500, 700))
    now = next(now for now in play(world, trace, worlds.RULES, 0) if now.view.now_s == 5)
    assert starts_of(now, 0)[:, 0].tolist() == [[False, True], [False, False], *[[False] * 2] * 2]
    row = now.seen[0]["pairs"][0, 0, 1]
    assert np.exp(row[3:5]).tolist() == pytest.approx([1.4, 1.5])  # beside 400; A beside 500


def world_in(case: Case) -> World:
    return World(**{key: value for key, value in case.arguments().items() if key != "jobs"})


def owed_s(env: SchedulingEnv) -> float:
    """All delay of a finished episode, from its log and its jobs alone."""
    simulator = env.turns.simulator
    run, row = simulator.outcome("env", 0, 0.0, 0.0), simulator.state.job
    since_s = np.maximum(run.jobs.submit_s, [parents_done_s(run, j) for j in range(len(run.jobs))])
    ready = since_s <= run.finish_s  # not withdrawn before that
    return float((run.finish_s - since_s - row["progress_s"])[ready].sum())


def nobody_could_start(env: SchedulingEnv) -> None:
    """The run is stuck because no job of a window fits where it is, not because agents held back.

    Behind a window full of jobs that fit nowhere others may stand; such a run ends in any case.
    """
    view = env.turns.simulator.views(NEEDS).view()
    assert len(view.running) == 0
    every = list(range(view.topology.num_gpus))
    assert len(view.queued) > 0
    scratch = env.turns.play.scratch
    refresh(scratch)
    for at in range(view.num_partitions):
        begin_turn(scratch, at)
        rows = scratch.window[: scratch.scalars["num_window"][0]]
        for job in scratch.waiting["job"][rows].tolist():
            gang = int(view.jobs.num_gpus[job])
            assert len(Room(view).pick(job, every, at, view.tenant.shape[1], gang)) < gang


def parents_done_s(run: Any, job: int) -> float:
    """When the last parent of `job` had finished well; inf if one did not."""
    links, log, done_s = run.jobs.precedence, run.log, 0.0
    if links is None:
        return done_s
    for parent in links.parents[links.first[job] : links.first[job + 1]].tolist():
        finished = log.time_s[(log.job == parent) & (log.kind == Kind.FINISH)]
        good = len(finished) == 1 and run.outcome[parent] == 0
        done_s = max(done_s, float(finished[0]) if good else np.inf)
    return done_s


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(cases(most_partitions=3, most_jobs=20, life=True), st.booleans(), st.integers(0, 99))
def test_agents_play_any_life_by_the_rules_and_their_returns_add_up(case, everyone, seed):
    rules = replace(worlds.RULES, window=5, only_placeable=False, patience_s=(1e9, 3.0)[seed % 2])
    jobs = case.jobs
    env = worlds.env_of(world_in(case), lambda _: jobs, everyone=everyone, scale_s=1.0, rules=rules)
    rng = np.random.default_rng(seed)
    total = 0.0
    try:
        for rewards, _ in worlds.rollout(env, lambda _, o: worlds.any_legal(rng, o), seed):
            total += sum(rewards.values())
    except SimulationError as error:
        assert "forever" in str(error)
        nobody_could_start(env)
        return
    assert env.turns.over
    assert np.isfinite(total)
    assert total == pytest.approx(-owed_s(env), rel=1e-9, abs=1e-6)


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(cases(most_partitions=3, most_jobs=14, life=True), st.integers(0, 99))
def test_every_start_that_is_legal_is_offered_and_accepted(case: Case, seed: int):
    rules = replace(worlds.RULES, only_placeable=False)
    try:
        for now in play(world_in(case), case.jobs, rules, seed):
            for agent, observation in now.seen.items():
                for action in np.flatnonzero(observation["action_mask"][:-1]).tolist():
                    tried(now.simulator, now.rounds.decide(now.view, {agent: action}))
                check_starts(now, agent)
    except SimulationError:
        pass


def check_starts(now: Any, agent: int) -> None:
    """From each own server: offered if a worker fits there and the gang in the partition."""
    allowed, view = starts_of(now, agent), now.view
    memory = now.rounds.play(view).memory
    for w, job in enumerate(memory.window[: memory.turn["in_window"][0]].tolist()):
        for mode, most in enumerate((1, view.tenant.shape[1])):
            room, gang = Room(view), int(view.jobs.num_gpus[job])
            every = list(range(view.topology.num_gpus))
            fits = len(room.pick(job, every, agent, most, gang)) == gang
            there = [bool(room.pick(job, list(now.gpus(s)), agent, most, 1))
                     for s in now.servers(agent)]  # fmt: skip
            offered = allowed[w, : len(there), mode].tolist()
            if mode == MODES - 1:  # a shared start that meets only empty GPUs is the other one
                offered = (allowed[w, : len(there)].any(axis=1)).tolist()
            assert offered == [fits and here for here in there], (job, mode)


def delay_s(env: SchedulingEnv) -> float:
    """Minus the sum of all rewards if everyone takes the first legal action."""
    return -worlds.total_rewards(env, worlds.first_legal, 0)[0].sum()


def hand_env(trace: JobTable, outages: Outages = NO_OUTAGES) -> SchedulingEnv:
    """One GPU, no sharing, one agent that is paid -1 a second of delay."""
    return worlds.env_of(worlds.plain_world(1, 1, outages=outages), lambda _: trace, scale_s=1.0)


def test_a_withdrawal_ends_the_delay():
    # A runs 0-10. B waits from 2, its user gives up at 7: 5 s. C (5 s) starts at 10 after 7 s of
    # waiting and is withdrawn at 12 with 2 s done.
    jobs = [Job(0, 1, 10), Job(2, 1, 5), Job(3, 1, 5)]
    trace = job_table(jobs, **fates(np.inf, 5.0, 9.0))
    assert delay_s(hand_env(trace)) == pytest.approx(5 + 7)


def test_who_is_given_up_without_work_is_in_no_mean_of_an_episode():
    jobs = [Job(0, 1, 10), Job(20, 1, 0)]  # the second finds a place at once
    env = hand_env(job_table(jobs, **fates(np.inf, 5.0)))
    assert delay_s(env) == 0.0
    assert env.turns.jct_mean_s() == 10.0


def test_time_blocked_by_parents_is_nobodys_delay():
    # A runs 0-1000; B, its child, is there from 200 and ready at 1000. C (100 s, from 800 on) is
    # shorter, so the window's first: it runs 1000-1100, then B 1100-1600. B waits 100 s, C 200 s.
    jobs = [Job(0, 1, 1000), Job(200, 1, 500), Job(800, 1, 100)]
    env = hand_env(job_table(jobs, **waiting((), (0,), (), workflow=(0, 0, -1))))
    assert delay_s(env) == pytest.approx(100 + 200)
    assert env.turns.jct_mean_s() == pytest.approx((1000 + 1400 + 300) / 3)  # JCTs count it


def test_lost_work_and_time_away_are_delay():
    # A runs 0-4, its server fails, comes back at 6; A starts anew and ends at 16: 6 s late.
    # B (4 s of work, an attempt fails at 2) comes at 20, and starts again at once: no delay.
    trace = job_table([Job(0, 1, 10), Job(20, 1, 4)])
    trace = replace(trace, attempts=Attempts(np.array([0, 0, 1]), np.array([2.0])))
    env = hand_env(trace, changes((4.0, 0, Change.FAIL), (6.0, 0, Change.OPEN)))
    assert delay_s(env) == pytest.approx(6.0)


def test_an_episode_in_which_nobody_chooses_ends_at_its_first_step_or_is_passed_by():
    gone = job_table([Job(0, 1, 5)], **fates(0.0))
    env = hand_env(gone)
    observations, _ = env.reset(seed=0)
    assert observations["agent_0"]["action_mask"].nonzero()[0].tolist() == [env.layout.wait]
    assert env.step({"agent_0": env.layout.wait})[2] == {"agent_0": True}
    tables = iter([gone, gone, worlds.RandomJobs(3, 1, 1, 10.0)(0)])
    world = worlds.world_of(cluster(1, 1), 1, max_tenants=1)
    wrapped = RllibSchedulingEnv(
        worlds.env_of(world, lambda _: next(tables)), seed=0, first_cut_frac=1.0
    )
    assert set(wrapped.reset()[0]) == {"agent_0"}
