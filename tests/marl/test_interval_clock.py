"""Agents that act at the ends of intervals only."""

from dataclasses import replace

import numpy as np
import pytest

from marl.env.layout import CodecRules
from marl.env.memory import make_memory
from marl.env.playing import pause_s
from tests.marl.worlds import RULES, env_of, first_legal, plain_world, total_rewards
from tests.sim.worlds import Job, job_table

EVERY_TEN = replace(RULES, interval_s=10.0)
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
    env = env_of(plain_world(1, 2), lambda _: job_table(JOBS), rules=rules)
    total_rewards(env, first_legal, 0)
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
    assert first_starts(RULES)["first_start_s"] == [0.0, 3.0, 5.0, 20.0]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [(key, -1.0, "0 or more") for key in ("interval_s", "rest_share")]
    + [("rest_most_s", value, "null, or above 0") for value in (0.0, -1.0, float("inf"), "8h")],
)
def test_a_rule_that_is_no_time_is_refused(key, value, told):
    with pytest.raises(ValueError, match=rf"{key} is .*{value}.*; it must be {told}"):
        replace(RULES, **{key: value})
