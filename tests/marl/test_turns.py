"""The driver of turns: forks, runs side by side, actions, refusals, ends of intervals."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from marl.env.actions import FORWARD, KINDS, ORDERS, START, SUSPEND, WAIT, Sizes, decode
from marl.env.layout import WORKER, CodecRules, layout_for
from marl.env.memory import make_memory
from marl.env.observe import SEES, Buffers
from marl.env.playing import pause_s
from marl.env.scheduling_env import SchedulingEnv
from marl.env.turns import SideBySide, Turns
from marl.env.world import World
from sim.errors import InvalidDecision, SimulationError
from sim.jobs import JobTable
from sim.run import Run
from tests.marl import worlds
from tests.marl.playing import amid_gang
from tests.marl.test_links import LINKED, described
from tests.sim.same_runs import assert_same
from tests.sim.worlds import Job, job_table

BUSY = worlds.RandomJobs(count=40, partitions=2, most_gpus=6, span_s=1500.0)
KINDS_OF_RULES = {
    "gangs": worlds.RULES,
    "workers": replace(worlds.RULES, granularity=WORKER),
    "interval": replace(worlds.RULES, interval_s=200.0),
    "suspending": replace(worlds.RULES, suspends=True),
    "patient": replace(worlds.RULES, patience_s=300.0, only_placeable=False, rest_share=0.2),
}


def turns_of(world: World, jobs: JobTable, rules: CodecRules = worlds.RULES) -> Turns:
    layout = layout_for(world.topology, world.partition_of_server, rules)
    turns = Turns(world.simulator(jobs), layout, rules, gathers=True)
    turns.next()
    return turns


def play_on(turns: Turns, rng: np.random.Generator, most: float = np.inf) -> list[Any]:
    """Random legal turns; who acted, what it did, and what was gathered until the next turn."""
    told: list[Any] = []
    while len(told) < most and turns.agent >= 0:
        agent, action = turns.agent, worlds.any_legal(rng, turns.seen())
        turns.act(action)
        turns.next()
        gathered = turns.take()
        told.append((agent, action, gathered.delay_s.tolist(), gathered.progress.tolist()))
    return told


def ended(turns: Turns) -> Run:
    return turns.simulator.outcome("run", turns.decisions, 0.0, 0.0)


@pytest.mark.parametrize("rules", KINDS_OF_RULES.values(), ids=KINDS_OF_RULES)
@pytest.mark.parametrize("seed", range(6))
def test_a_fork_without_a_changed_act_ends_as_the_run_does(rules: CodecRules, seed: int):
    rng = np.random.default_rng(seed)
    turns = turns_of(worlds.mixed_world(), BUSY(seed), rules)
    play_on(turns, rng, most=float(rng.integers(0, 50)))
    twin = turns.fork()
    seen = turns.seen()
    theirs = play_on(twin, np.random.default_rng(seed + 100))  # all of it before the run goes on
    assert all(np.array_equal(seen[key], value) for key, value in turns.seen().items())
    ours = play_on(turns, np.random.default_rng(seed + 100))
    assert len(ours) > 0
    assert ours == theirs  # agents, actions and rewards, to the last digit
    assert_same(ended(turns), ended(twin))
    assert turns.over and twin.over
    assert turns.decisions == twin.decisions


def test_a_fork_with_a_changed_act_goes_another_way():
    turns = turns_of(worlds.mixed_world(), BUSY(1))
    play_on(turns, np.random.default_rng(1), most=20)
    twin, first = turns.fork(), np.flatnonzero(turns.seen()["action_mask"]).tolist()
    assert len(first) > 1
    turns.act(first[0])
    twin.act(first[-1])
    for each in (turns, twin):
        each.next()
        play_on(each, np.random.default_rng(2))
    assert not np.array_equal(ended(turns).finish_s, ended(twin).finish_s)
    assert np.isfinite(ended(twin).finish_s).all()


def test_a_fork_of_a_fork_amid_a_gang():
    turns = turns_of(worlds.mixed_world(), BUSY(2), KINDS_OF_RULES["workers"])
    rng = np.random.default_rng(3)
    while not amid_gang(turns.play):
        play_on(turns, rng, most=1)
    second = turns.fork().fork()
    assert amid_gang(second.play)
    assert play_on(second, np.random.default_rng(5)) == play_on(turns, np.random.default_rng(5))


@pytest.mark.parametrize("everyone", [True, False])
def test_an_environment_can_be_forked_with_its_stream_of_episodes(everyone: bool):
    def on(env: SchedulingEnv, observations: dict[str, Any]) -> list[Any]:
        rng, told = np.random.default_rng(0), []
        for _ in range(2):  # this episode and the next of the stream
            while env.agents:
                chosen = {a: worlds.any_legal(rng, o) for a, o in observations.items()}
                observations, rewards, *_, infos = env.step(chosen)
                told.append((chosen, rewards, infos))
            observations, _ = env.reset()
        return told

    env = worlds.env_of(worlds.mixed_world(), BUSY, everyone=everyone)
    rng = np.random.default_rng(4)
    observations, _ = env.reset(seed=4)
    for _ in range(25):
        observations, *_ = env.step({a: worlds.any_legal(rng, o) for a, o in observations.items()})
    twin = env.fork()
    assert repr(on(twin, observations)) == repr(on(env, observations))


@pytest.mark.parametrize("links", [False, True])
def test_runs_side_by_side_are_the_runs_one_by_one(links: bool):
    world = worlds.world_of(described(), 2) if links else worlds.mixed_world()
    rules = LINKED if links else worlds.RULES
    layout = layout_for(world.topology, world.partition_of_server, rules)
    jobs = [replace(BUSY, count=count)(count) for count in (3, 25, 12)]  # ends differ
    both = SideBySide.fresh([world.simulator(each) for each in jobs], layout, rules, gathers=True)
    alone = [turns_of(world, each, rules) for each in jobs]
    dice, single = ([np.random.default_rng(n) for n in range(3)] for _ in range(2))
    while len(rows := both.playing) > 0:
        seen, actions = both.seen(rows), []
        for at, n in enumerate(rows.tolist()):
            mine = {key: value[at] for key, value in seen.items()}
            other = alone[n].seen()
            assert mine.keys() == other.keys()
            for key in mine:
                np.testing.assert_array_equal(mine[key], other[key], key)
            actions.append(worlds.any_legal(dice[n], mine))
            play_on(alone[n], single[n], most=1)
        both.act(rows, np.array(actions))
    for run, other in zip(both.runs, alone, strict=True):
        assert_same(ended(run), ended(other))


def play_out(branches: SideBySide) -> None:
    """Everyone takes the first legal action."""
    while len(rows := branches.playing) > 0:
        branches.act(rows, branches.seen(rows)["action_mask"].argmax(1))


def test_branches_start_at_the_turn_and_part_by_their_acts():
    turns = turns_of(worlds.mixed_world(), BUSY(7))
    play_on(turns, np.random.default_rng(7), most=15)
    legal = np.flatnonzero(turns.seen()["action_mask"])
    branches = SideBySide.branches(turns, len(legal))
    rows = branches.playing
    assert len(rows) == len(legal)
    branches.act(rows, legal)
    play_out(branches)
    ends = {ended(run).finish_s.tobytes() for run in branches.runs}
    assert len(ends) > 1
    assert not turns.over  # where it was


def test_branches_can_be_used_again_at_a_later_turn():
    turns = turns_of(worlds.mixed_world(), BUSY(8))
    rng = np.random.default_rng(8)
    branches = SideBySide.branches(turns, 2)
    for _ in range(4):
        play_on(turns, rng, most=8)
        fresh = SideBySide.branches(turns, 2)
        for each in (branches, fresh):
            if each is branches:
                each.become(np.arange(2), turns)
            play_out(each)
        for one, other in zip(branches.runs, fresh.runs, strict=True):
            assert_same(ended(one), ended(other))
    elsewhere = turns_of(worlds.mixed_world(), replace(BUSY, count=7)(0))
    with pytest.raises(ValueError, match="cannot become"):
        elsewhere.become(turns)


def test_many_turns_fill_the_log_many_times():
    """Each flush of the log falls where it may: the log is that of `Simulator`'s own loop."""
    jobs = replace(BUSY, count=300, span_s=9000.0)(0)
    turns = turns_of(worlds.mixed_world(), jobs)
    flushed = []
    flush = turns.simulator.flush
    turns.simulator.flush = lambda: (flushed.append(1), flush())[1]  # type: ignore[method-assign]
    play_on(turns, np.random.default_rng(0))
    run = ended(turns)
    assert len(flushed) > 0
    assert np.isfinite(run.finish_s).all()
    assert (np.diff(run.log.time_s) >= 0).all()
    assert (np.bincount(run.log.job[run.log.kind == 0], minlength=300) == 1).all()  # FINISH


def test_numbers_of_actions_and_what_they_are_called():
    sizes = Sizes(window=4, servers=3, partitions=2)
    table = sizes.table()
    assert (sizes.first(FORWARD), sizes.first(WAIT), sizes.first(len(KINDS))) == (24, 32, 33)
    for kind in (START, FORWARD, WAIT):
        for at in np.ndindex(*sizes.shape(kind)):
            action = sizes.action(kind, *at)
            assert tuple(decode(table, action)) == (kind, *at, *[0] * (3 - len(at)))
    parts = [sizes.part(kind, np.arange(33)) for kind in (START, FORWARD, WAIT)]
    assert [part.shape for part in parts] == [(4, 3, 2), (4, 2), ()]
    assert parts[FORWARD][3, 1] == sizes.action(FORWARD, 3, 1)
    for action, words in (
        (sizes.action(START, 2, 1, 1), "start job 2 of the window from server 1 in mode 1"),
        (sizes.action(FORWARD, 3, 1), "forward job 3 of the window to partition 1"),
        (sizes.action(WAIT), "wait"),
        (33, "there are 33 actions"),
    ):
        assert sizes.words(action) == words


def test_a_kind_that_a_rule_allows_is_whole_and_costs_no_number_without_it():
    optional = [kind for kind, each in enumerate(KINDS) if each.rule]
    assert set(SEES) == set(ORDERS) == set(optional) >= {SUSPEND}
    assert {KINDS[kind].rule for kind in optional} <= {each.name for each in fields(CodecRules)}
    assert {KINDS[kind].rows for kind in optional} <= {each.name for each in fields(Buffers)}
    sizes = Sizes(window=4, servers=3, partitions=2, ruled=(SUSPEND,))
    assert (sizes.first(SUSPEND), sizes.first(WAIT)) == (32, 40)
    assert tuple(decode(sizes.table(), 33 + 2 * 3)) == (SUSPEND, 3, 1, 0)
    assert replace(sizes, ruled=()).shape(SUSPEND) == (4, 0)


def test_an_illegal_action_is_refused_by_name_and_changes_nothing():
    world, jobs = worlds.mixed_world(), BUSY(0)
    turns, twin = turns_of(world, jobs), turns_of(world, jobs)
    both = SideBySide.branches(turns, 1)
    for wrong in (-1, 10**6, int(np.flatnonzero(turns.seen()["action_mask"] == 0)[0])):
        with pytest.raises(InvalidDecision, match=rf"agent \d: action {wrong} .* is not legal at"):
            turns.act(wrong)
        with pytest.raises(InvalidDecision, match=rf"action {wrong} "):
            both.act(np.array([0]), np.array([wrong]))
    rngs = np.random.default_rng(0), np.random.default_rng(0)
    assert play_on(turns, rngs[0]) == play_on(twin, rngs[1])


def test_jobs_that_wait_for_ever_or_come_to_no_partition_are_told_of():
    lost = turns_of(worlds.mixed_world(max_forwards=0), job_table([Job(0, 1, 10), Job(0, 16, 10)]))
    with pytest.raises(SimulationError, match="waits forever"):
        play_on(lost, np.random.default_rng(0))
    with pytest.raises(SimulationError, match="arrives at partition 1, and there are 0 to 0; play"):
        worlds.mixed_world(1).simulator(worlds.MIXED_JOBS(0))


def test_episodes_of_an_environment_are_the_runs_of_the_driver():
    env = worlds.env_of(worlds.mixed_world(), worlds.MIXED_JOBS)
    returns, _ = worlds.total_rewards(env, worlds.first_legal, 0)
    turns = turns_of(worlds.mixed_world(), env.turns.simulator.jobs)
    while not turns.over:
        turns.act(worlds.first_legal(0, turns.seen()))
        turns.next()
    delay_s = float(turns.take().delay_s.sum())
    assert returns.sum() == pytest.approx(-delay_s / 1000.0)
    assert_same(ended(turns), ended(env.turns))


EVERY_TEN = replace(worlds.RULES, interval_s=10.0)
JOBS = [Job(0, 1, 14), Job(3, 1, 2), Job(4, 1, 5), Job(20, 1, 3)]


@pytest.mark.parametrize(
    ("interval_s", "until_s"),
    [
        # 0 is a multiple itself; 10 is asked about twice, in two turns; all is quiet from 10 to 24.
        (10.0, [(0, None), (3, 10), (7.5, 10), (10, None), (10, None), (24, 30)]),
        (0.1, [(0.25, 3 * 0.1), (3 * 0.1, None)]),  # 0.30000000000000004, which over 0.1 is above 3
        (0.0, [(0, None), (0.1, None), (7, None)]),
    ],
)
def test_an_event_waits_for_the_end_of_its_interval(interval_s: float, until_s: list[tuple]):
    memory = make_memory(jobs=1, partitions=1, actions=1, window=1, largest_gang=1, running=1)
    for now_s, expected_s in until_s:
        found_s = pause_s(memory, interval_s, float(now_s))
        assert (None if np.isnan(found_s) else found_s) == expected_s


def first_starts(rules: CodecRules) -> dict[str, float]:
    """When the jobs start and finish if agents take the first legal action on one server."""
    env = worlds.env_of(worlds.plain_world(1, 2), lambda _: job_table(JOBS), rules=rules)
    worlds.total_rewards(env, worlds.first_legal, 0)
    job = env.turns.simulator.state.job
    return {key: job[key].tolist() for key in ("first_start_s", "finish_s")}


def test_the_timeline_of_an_interval_clock():
    # Every 10 s. GPUs a, b: A 0-14 on a. B (at 3) and C (at 4) come while b is empty but wait for
    # 10: B, the shorter, takes b 10-12; C has no GPU until 12, which counts at 20: C 20-25 with
    # D, which comes at 20 itself, on the other GPU 20-23. Completions are exact.
    found = first_starts(EVERY_TEN)
    assert found["first_start_s"] == [0.0, 10.0, 20.0, 20.0]
    assert found["finish_s"] == [14.0, 12.0, 25.0, 23.0]
    # At every event: B 3-5, C 5-10, D 20-23.
    assert first_starts(worlds.RULES)["first_start_s"] == [0.0, 3.0, 5.0, 20.0]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [(key, -1.0, "0 or more") for key in ("interval_s", "rest_share")]
    + [("rest_most_s", value, "null, or above 0") for value in (0.0, -1.0, float("inf"), "8h")],
)
def test_a_rule_that_is_no_time_is_refused(key, value, told):
    with pytest.raises(ValueError, match=rf"{key} is .*{value}.*; it must be {told}"):
        replace(worlds.RULES, **{key: value})
