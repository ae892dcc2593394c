"""What is observed: masks sound and complete, names that do not matter, predicted costs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marl.env.actions import MODES
from marl.env.layout import CodecRules, Observation
from marl.policy.pair_score import PairScorePolicy, stack
from sim.physics.mix_table import PowerLaw
from sim.scoring.table import OfContext, OfForward, OfGpu, OfJob, OfPair, OfPeer, OfServer
from tests.marl.playing import Round, forwards_of, play, starts_of, tried
from tests.marl.worlds import (
    MIXED_JOBS,
    RULES,
    SMALL,
    RandomJobs,
    loud_policy,
    mixed_world,
    plain_world,
    rich_physics,
    world_of,
)
from tests.sim.worlds import Job, cluster, job_table, physics_of


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


def observations(partitions: int, least: int) -> list[Observation]:
    """Moments at which an agent has many choices."""
    jobs = RandomJobs(count=30, partitions=partitions, most_gpus=3, span_s=1200.0)(1)
    found = [
        o
        for now in play(mixed_world(partitions), jobs, RULES, 1)
        for o in now.seen.values()
        if o["action_mask"].sum() >= least
    ]
    assert len(found) >= 5
    return found


def scores(policy: PairScorePolicy, observation: Observation) -> tuple[np.ndarray, ...]:
    """Logits of starts (W, S, MODES), of forwards (W, M), of *wait*; and the value."""
    w, s = observation["pairs"].shape[:2]
    with torch.no_grad():
        said = policy(stack([observation]))
        value = policy.values(said.state)
    logits = said.logits[0].numpy()
    starts, sends = np.split(logits[:-1], [w * s * MODES])
    return starts.reshape(w, s, MODES), sends.reshape(w, -1), logits[-1], value.numpy()


def shuffled_servers(observation: Observation, order: np.ndarray) -> Observation:
    w, s = observation["pairs"].shape[:2]
    starts = observation["action_mask"][: w * s * MODES].reshape(w, s, MODES)[:, order]
    return observation | {
        "gpus": observation["gpus"][order],
        "servers": observation["servers"][order],
        "server_rack": observation["server_rack"][order],
        "pairs": observation["pairs"][:, order],
        "action_mask": np.append(starts, observation["action_mask"][w * s * MODES :]),
    }


def shuffled_peers(observation: Observation, order: np.ndarray) -> Observation:
    w, s = observation["pairs"].shape[:2]
    mask = observation["action_mask"].copy()
    mask[w * s * MODES : -1] = mask[w * s * MODES : -1].reshape(w, -1)[:, order].reshape(-1)
    return observation | {
        "peers": observation["peers"][order],
        "forwards": observation["forwards"][:, order],
        "action_mask": mask,
    }


@pytest.mark.parametrize("servers", [True, False])
def test_renaming_servers_or_peers_renames_their_scores_and_nothing_else(servers: bool):
    policy = loud_policy(SMALL, 0)
    for observation in observations(*((2, 6) if servers else (4, 4))):
        order = np.random.default_rng(0).permutation(4)
        starts, sends, wait, value = scores(policy, observation)
        renamed = (shuffled_servers if servers else shuffled_peers)(observation, order)
        wanted = (starts[:, order], sends) if servers else (starts, sends[:, order])
        for new, old in zip(scores(policy, renamed), (*wanted, wait, value), strict=True):
            assert new == pytest.approx(old, rel=1e-4, abs=1e-4)
        legal = starts[starts > -1e8]
        assert not servers or len(np.unique(legal.round(4))) > 1  # or any order would do


def test_padding_changes_no_score():
    """One set of weights: room for more servers and partitions adds only masked actions."""
    policy = loud_policy(SMALL, 0)
    for observation in observations(2, 6):
        w, s = observation["pairs"].shape[:2]
        starts, sends, wait, _ = scores(policy, observation)
        mask = observation["action_mask"]
        room = {
            key: np.pad(value, [(0, 3)] + [(0, 0)] * (value.ndim - 1))
            for key, value in observation.items()
            if key in ("gpus", "servers", "server_rack", "peers")
        }
        room["pairs"] = np.pad(observation["pairs"], ((0, 0), (0, 3), (0, 0), (0, 0)))
        room["forwards"] = np.pad(observation["forwards"], ((0, 0), (0, 3), (0, 0)))
        first, second = np.split(mask[:-1], [w * s * MODES])
        wide = np.pad(first.reshape(w, s, MODES), ((0, 0), (0, 3), (0, 0))).reshape(-1)
        sent = np.pad(second.reshape(w, -1), ((0, 0), (0, 3))).reshape(-1)
        room["action_mask"] = np.concatenate([wide, sent, mask[-1:]])
        new = scores(policy, observation | room)
        assert new[0][:, :s] == pytest.approx(starts, rel=1e-4, abs=1e-4)
        assert new[1][:, : sends.shape[1]] == pytest.approx(sends, rel=1e-4, abs=1e-4)
        assert new[2] == pytest.approx(wait, rel=1e-4)
        assert (new[0][:, s:] < -1e8).all()


def test_nobody_sees_true_durations():
    """Until a job ends, twice the true durations under equal estimates look the same."""
    jobs = replace(MIXED_JOBS, count=40, span_s=800.0)(3)
    jobs = replace(jobs, duration_s=jobs.duration_s + 600.0)
    slower = replace(jobs, duration_s=2.0 * jobs.duration_s + 1.0)
    first_end_s = min(
        float(now.view.now_s)
        for now in play(mixed_world(), jobs, RULES, 3)
        if now.simulator.finished() > 0
    )
    compared = 0
    worlds = (play(mixed_world(), table, RULES, 3) for table in (jobs, slower))
    for now, other in zip(*worlds, strict=False):
        if now.view.now_s >= first_end_s:
            break
        assert now.view.now_s == other.view.now_s
        assert now.seen.keys() == other.seen.keys()
        for agent, observation in now.seen.items():
            compared += 1
            for key, values in observation.items():
                assert values.tobytes() == other.seen[agent][key].tobytes(), key
    assert compared > 10


def test_estimates_are_seen():
    jobs = MIXED_JOBS(3)
    other = replace(jobs, estimate_s=3.0 * jobs.estimate_s)
    one, two = (next(n for n in play(mixed_world(), t, RULES, 3) if n.seen) for t in (jobs, other))
    assert not np.array_equal(one.seen[0]["jobs"], two.seen[0]["jobs"])


GROUPS = {
    "jobs": OfJob, "pairs": OfPair, "gpus": OfGpu, "servers": OfServer, "peers": OfPeer,
    "forwards": OfForward, "context": OfContext,
}  # fmt: skip
STEP = [OfPair.SPREAD, OfPair.CONTENTION, OfPair.OWN_SLOWDOWN]  # add up to the whole step


def predicted_and_real(now: Round) -> list[tuple[int, float, float]]:
    """(mode, rate that the pair row predicts, the kernel's rate right after that start)."""
    found = []
    scratch = now.rounds.play(now.view).scratch  # the codec's own unit of a step
    for agent, observation in now.seen.items():
        window = now.window(agent)
        for row, server, mode in np.argwhere(starts_of(now, agent)).tolist():
            action = (row * now.rounds.layout.servers + server) * MODES + mode
            trial = tried(now.simulator, now.rounds.decide(now.view, {agent: action}))
            job = window[row]
            pair = observation["pairs"][row, server, mode]
            step_s = np.exp(pair[STEP].sum()) * scratch.job["reference_step_s"][job]
            rate = trial.state.job["reference_step_s"][job] / step_s
            found.append((mode, float(rate), float(trial.state.job["rate"][job])))
    return found


@pytest.mark.parametrize("partitions", [1, 2])
def test_predicted_speed_is_the_kernels_exclusive_and_shared_on_mixed_types(partitions: int):
    seen = []
    for seed in range(4):
        jobs = RandomJobs(count=25, partitions=partitions, most_gpus=6, span_s=900.0)(seed)
        for now in play(mixed_world(partitions), jobs, RULES, seed):
            seen += predicted_and_real(now)
    modes, predicted, real = (np.array(column) for column in zip(*seen, strict=True))
    assert predicted == pytest.approx(real, rel=1e-5)
    assert np.bincount(modes).min() > 100  # both modes were met often,
    assert np.ptp(np.log(real)) > 1.0  # and speeds differed


def test_predicted_speed_is_the_kernels_in_mixes_by_a_table():
    topology = cluster(3, 2, types=("x", "y", "x"))
    law = PowerLaw(power=2.0, most_aggressors=2, max_tenants=4)
    physics = replace(rich_physics(topology), mix_law=law)
    world = world_of(topology, 1, physics=physics, max_tenants=4)
    seen, mixed = [], 0
    for seed in range(3):
        jobs = RandomJobs(count=25, partitions=1, most_gpus=4, span_s=300.0)(seed)
        for now in play(world, jobs, RULES, seed):
            mixed += int((now.view.tenants > 1).sum())
            seen += predicted_and_real(now)
    _, predicted, real = (np.array(column) for column in zip(*seen, strict=True))
    assert predicted == pytest.approx(real, rel=1e-5)
    assert mixed > 50


def test_victims_and_their_delay_by_hand():
    # A (profile 0, 1,000 s) and B (profile 1, 2,000 s) run on GPUs 0 and 1 for 100 s. C (profile 0,
    # 300 s) may join either: beside A it is 1.5 times slower, A too (0.5 x 300 s more); beside B it
    # is 1.2 times slower and B 2 times (1 x 300 s more).
    physics = physics_of(cluster(2, 1), slowdown=((1.5, 1.2), (2.0, 1.0)))
    world = plain_world(2, 1, physics=physics, max_tenants=2)
    trace = job_table([Job(0, 1, 1000), Job(0, 1, 2000, profile=1), Job(100, 1, 300)])
    asked = (now for seed in range(20) for now in play(world, trace, RULES, seed) if now.seen)
    now = next(n for n in asked if n.view.now_s == 100 and n.view.tenants.tolist() == [1, 1])
    of_a, of_b = (int(now.view.gpus_of(job)[0]) for job in (0, 1))
    pairs = now.seen[0]["pairs"][0, :, 1]
    for gpu, own, victim, more_s in ((of_a, 1.5, 1.5, 150.0), (of_b, 1.2, 2.0, 300.0)):
        assert np.exp(pairs[gpu, OfPair.OWN_SLOWDOWN]) == pytest.approx(own)
        assert np.exp(pairs[gpu, OfPair.WORST_VICTIM]) == pytest.approx(victim)
        assert np.expm1(pairs[gpu, OfPair.VICTIMS_DELAY]) == pytest.approx(more_s / 300.0)


def test_every_column_of_an_observation_differs_somewhere():
    low: dict[str, np.ndarray] = {}
    high: dict[str, np.ndarray] = {}
    jobs = RandomJobs(count=60, partitions=2, most_gpus=6, span_s=2000.0)(1)
    for now in play(mixed_world(2, [1, 3, 2]), jobs, replace(RULES, patience_s=300.0), 1):
        for seen in now.seen.values():
            for key, group in GROUPS.items():
                rows = seen[key].reshape(-1, len(group))
                low[key] = np.minimum(low.get(key, np.inf), rows.min(axis=0))
                high[key] = np.maximum(high.get(key, -np.inf), rows.max(axis=0))
    for key, group in GROUPS.items():
        same = {each for each in group if low[key][each] == high[key][each]}
        # There are two partitions throughout.
        assert same <= {OfContext.PARTITIONS, OfPeer.THERE}, key
        assert all(high[key][each] > 0 for each in group), key
