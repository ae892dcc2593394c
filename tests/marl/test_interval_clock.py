"""Agents that act at the ends of intervals only."""

from dataclasses import replace

import numpy as np
import pytest

from marl.env.layout import WORKER, CodecRules
from marl.env.memory import make_memory
from marl.env.playing import pause_s
from marl.policy.build import PolicyFileError, build_policy, read_spec, save_policy
from tests.marl.worlds import RULES, SMALL, env_of, world_of
from tests.sim.worlds import Job, cluster, job_table, physics_of

EVERY_TEN = replace(RULES, interval_s=10.0)
#  one GPU a partition, in one partition of two GPUs
JOBS = [Job(0, 1, 14), Job(3, 1, 2), Job(4, 1, 5), Job(20, 1, 3)]


def one_server():
    topology = cluster(1, 2)
    return world_of(topology, 1, physics=physics_of(topology), max_tenants=1)


class Clock:
    def __init__(self, interval_s: float) -> None:
        self._memory = make_memory(
            jobs=1, partitions=1, actions=1, window=1, largest_gang=1, running=1
        )
        self._interval_s = interval_s

    def pause_s(self, now_s: float) -> float | None:
        until_s = pause_s(self._memory, self._interval_s, now_s)
        return None if np.isnan(until_s) else until_s


def test_an_event_waits_for_the_end_of_its_interval():
    clock = Clock(10.0)
    assert clock.pause_s(0.0) is None  # a multiple itself
    assert clock.pause_s(3.0) == 10.0
    assert clock.pause_s(7.5) == 10.0
    assert clock.pause_s(10.0) is None
    assert clock.pause_s(10.0) is None  # the next turn of the same instant
    assert clock.pause_s(24.0) == 30.0  # nothing happened between 10 and 24


def test_rounding_puts_nothing_off_twice():
    clock = Clock(0.1)
    due_s = clock.pause_s(0.25)
    assert due_s == 3 * 0.1  # 0.30000000000000004, which over 0.1 is above 3
    assert clock.pause_s(due_s) is None


def test_without_an_interval_agents_always_act():
    assert all(Clock(0.0).pause_s(now_s) is None for now_s in (0.0, 0.1, 7.0))


def first_legal(rules: CodecRules) -> dict[str, float]:
    """When the jobs start and finish if agents take the first legal action."""
    world = one_server()
    env = env_of(world, lambda _: job_table(JOBS), rules=rules)
    observations, _ = env.reset(seed=0)
    state = env.turns.simulator.state
    while env.agents:
        chosen = {a: int(np.argmax(o["action_mask"])) for a, o in observations.items()}
        observations, *_ = env.step(chosen)
    return {key: state.job[key].tolist() for key in ("first_start_s", "finish_s")}


def test_the_timeline_of_an_interval_clock():
    # Every 10 s. GPUs a, b: A 0-14 on a. B (at 3) and C (at 4) come while b is empty but wait for
    # 10: B, the shorter, takes b 10-12; C has no GPU until 12, which counts at 20: C 20-25 with
    # D, which comes at 20 itself, on the other GPU 20-23. Completions are exact.
    found = first_legal(EVERY_TEN)
    assert found["first_start_s"] == [0.0, 10.0, 20.0, 20.0]
    assert found["finish_s"] == [14.0, 12.0, 25.0, 23.0]
    # At every event: B 3-5, C 5-10, D 20-23.
    assert first_legal(RULES)["first_start_s"] == [0.0, 3.0, 5.0, 20.0]


def test_a_policy_file_keeps_the_rules_and_old_ones_mean_gangs_and_events(tmp_path):
    policy = build_policy(SMALL, 1)
    rules = replace(RULES, granularity=WORKER, interval_s=30.0, rest_share=0.5, rest_most_s=60.0)
    save_policy(tmp_path, policy, SMALL, rules)
    assert read_spec(tmp_path)[1] == rules
    path = tmp_path / "policy.json"
    text = path.read_text()
    path.write_text(
        text.replace(', "granularity": "worker"', "")
        .replace(', "interval_s": 30.0', "")
        .replace(', "rest_most_s": 60.0', "")
    )
    old = read_spec(tmp_path)[1]
    assert (old.granularity, old.interval_s, old.rest_most_s) == ("gang", 0.0, None)
    path.write_text(text.replace('"worker"', '"crew"'))
    with pytest.raises(PolicyFileError, match="granularity is 'crew'; it must be gang or worker"):
        read_spec(tmp_path)


@pytest.mark.parametrize("key", ["interval_s", "rest_share"])
def test_a_number_below_zero_is_refused(key):
    with pytest.raises(ValueError, match=rf"{key} is -1\.0; it must be 0 or more"):
        replace(RULES, **{key: -1.0})


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), "8h"])
def test_a_most_that_is_no_time_is_refused(value):
    with pytest.raises(ValueError, match=r"rest_most_s is .*; it must be null, or above 0"):
        replace(RULES, rest_most_s=value)
