"""Masks are sound (what they allow is accepted) and complete (what they forbid has a reason)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marl.env.layout import CodecRules
from tests.marl.playing import Round, forwards_of, play, starts_of, tried
from tests.marl.worlds import RULES, RandomJobs, mixed_world, plain_world
from tests.sim.worlds import Job, job_table


def random_case(partitions: int, seed: int, only_placeable: bool, sharing: bool):
    rules = CodecRules(
        window=3, only_placeable=only_placeable, sharing=sharing, patience_s=(1e9, 150.0)[seed % 2]
    )
    most = 4 if partitions == 4 else 6  # four partitions have 4 GPUs each
    jobs = RandomJobs(count=14, partitions=partitions, most_gpus=most, span_s=900.0)(seed)
    return mixed_world(partitions, max_forwards=seed % 4), jobs, rules


CASES = st.tuples(st.sampled_from([1, 2, 4]), st.integers(0, 2**20), st.booleans(), st.booleans())


@settings(max_examples=12)
@given(CASES)
def test_whatever_a_mask_allows_the_simulator_accepts(drawn):
    world, jobs, rules = random_case(*drawn)
    accepted = 0
    for now in play(world, jobs, rules, drawn[1]):
        for agent, observation in now.seen.items():
            for action in np.flatnonzero(observation["action_mask"][:-1]).tolist():
                decision = now.rounds.decide(now.view, {agent: action})
                tried(now.simulator, decision)  # raises InvalidDecision if it is refused
                accepted += 1
                assert len(decision.starts) + len(decision.forwards) == 1
    assert accepted >= len(jobs)  # every job has a start at least


@settings(max_examples=25)
@given(CASES)
def test_whatever_is_missing_from_a_mask_is_missing_for_a_stated_reason(drawn):
    world, jobs, rules = random_case(*drawn)
    for now in play(world, jobs, rules, drawn[1]):
        for agent in range(world.partitions):
            check_agent(now, agent)


def check_agent(now: Round, agent: int) -> None:
    """The mask of `agent` against the rules in plain words (docs/agents.md)."""
    window, view = now.window(agent), now.view
    starts = {(w, s): expected_starts(now, agent, job, s)
              for w, job in enumerate(window)
              for s in range(len(now.servers(agent)))}  # fmt: skip
    can_start = any(any(modes) for modes in starts.values())
    idle = not any(view.jobs.partition[j] == agent for j in view.running)
    forced = idle and can_start and agent in now.pressed
    sends = {(w, m) for w, job in enumerate(window) for m in range(view.num_partitions)
             if not forced and may_forward(now, agent, job, m)}  # fmt: skip
    if agent not in now.seen:
        # Turns go around from who acted last.
        ahead = [(m - now.last) % now.view.num_partitions for m in (*now.seen, agent)]
        earlier = len(ahead) == 2 and ahead[0] < ahead[1]
        assert earlier or agent in now.waited or not (can_start or sends)
        return
    assert len(now.seen) == 1
    mask = now.seen[agent]["action_mask"]
    allowed = starts_of(now, agent)
    for (w, s), expected in starts.items():
        assert allowed[w, s].tolist() == list(expected), (agent, w, s)
    assert allowed.sum() == sum(map(sum, starts.values()))  # nothing in the padding
    assert {tuple(at) for at in np.argwhere(forwards_of(now, agent)).tolist()} == sends
    assert bool(mask[-1]) != (forced or any(overdue(now, agent, job) for job in window))


def expected_starts(now: Round, agent: int, job: int, own: int) -> tuple[bool, bool]:
    """(exclusive, shared) from own server `own`."""
    servers, gang = now.servers(agent), int(now.view.jobs.num_gpus[job])
    empty = [now.empty(s) for s in servers]
    alone = empty[own] > 0 and sum(empty) >= gang
    joinable = [now.joinable(s, job) for s in servers]
    together = now.rules.sharing and joinable[own] > 0 and sum(joinable) >= gang
    if together and only_empty(joinable, empty, servers, own, gang, now):
        assert alone  # so nothing is lost: it is the exclusive candidate
        together = False
    return alone, together


def only_empty(joinable, empty, servers, own, gang, now) -> bool:
    """Whether filling outwards from `own` meets only empty GPUs (see `place_outwards`)."""
    rack = now.view.topology.server_rack
    left, at, rest = gang, own, set(range(len(servers))) - {own}
    while left > 0:
        if min(left, joinable[at]) > empty[at]:
            return False
        left -= min(left, joinable[at])
        near = sorted(rest, key=lambda i: (
            joinable[i] == 0, rack[servers[i]] != rack[servers[own]],
            joinable[i] < left, joinable[i] if joinable[i] >= left else -joinable[i], i,
        ))  # fmt: skip
        if left > 0:
            at = near[0]
            rest -= {at}
    return True


def may_forward(now: Round, agent: int, job: int, target: int) -> bool:
    view = now.view
    gang = int(view.jobs.num_gpus[job])
    sizes = view.topology.gpus_per_server
    capacity = [sizes[view.partition_of_server == m].sum() for m in range(view.num_partitions)]
    if target == agent or view.jobs.forwards[job] >= view.max_forwards or gang > capacity[target]:
        return False
    if job in now.sent:
        return False
    stuck = gang > capacity[agent]
    return compactly(now, target, gang) or stuck or not now.rules.only_placeable


def compactly(now: Round, partition: int, gang: int) -> bool:
    """Whether `gang` fits on empty GPUs of the fewest servers (of 2 GPUs) that could hold it."""
    roomiest = sorted((now.empty(s) for s in now.servers(partition)), reverse=True)
    return sum(roomiest[: -(-gang // 2)]) >= gang


def overdue(now: Round, agent: int, job: int) -> bool:
    """Whether the agent's patience with this job is over: it is old and fits."""
    view = now.view
    old = view.now_s - view.jobs.submit_s[job] > now.rules.patience_s
    return old and compactly(now, agent, int(view.jobs.num_gpus[job]))


def test_the_window_is_sorted_by_predicted_work_left():
    # Estimates 500, 100, 300, 200, 400 s (durations say the opposite); a window of 4 on a cluster
    # that job F fills. E ran its estimate of 60 s out twice over: it has nothing left, yet is not
    # in the queue, because it runs.
    world = plain_world(1, 2)
    gangs = ((1, 500.0), (2, 100.0), (1, 300.0), (2, 200.0), (1, 400.0))
    waiting = [Job(1, gang, 1000 - seconds, seconds) for gang, seconds in gangs]
    run = play(world, job_table([Job(0, 2, 50, 900.0), *waiting]), RULES, 0)
    now = next(n for n in run if n.view.now_s >= 50 and n.seen and len(n.view.queued) == 5)
    jobs = now.seen[0]["jobs"]
    assert np.exp(jobs[:, 3] * 2.5 + 7.0) == pytest.approx([100, 200, 300, 400], rel=1e-5)
    assert jobs[:, 2].tolist() == [0, 0, 1, 1]  # gangs of 2, 2, 1, 1
    assert jobs[:, 10].tolist() == [0, 0.25, 0.5, 0.75]


def test_a_gang_too_large_for_its_partition_may_leave_for_a_full_one():
    # Partition 0 has 2 GPUs, partition 1 has 4 of which 1 is busy: the gang of 4 fits nowhere now.
    world = plain_world(3, 2, servers_per_rack=1)
    world = replace(world, partition_of_server=np.array([0, 1, 1]))
    trace = job_table([Job(0, 1, 100, home=1), Job(5, 4, 10, home=0)])
    now = next(now for now in play(world, trace, RULES, 0) if now.view.now_s == 5)
    assert forwards_of(now, 0)[0].tolist() == [False, True]
    assert not starts_of(now, 0).any()
