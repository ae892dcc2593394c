"""`rules.alone`: an agent neither sees nor reaches other partitions."""

from dataclasses import replace

import numpy as np
import pytest

from marl.env.layout import Observation
from marl.env.scheduling_env import SchedulingEnv
from sim.jobs import JobTable
from tests.marl.worlds import MIXED_JOBS, RULES, any_legal, env_of, mixed_world
from tests.sim.worlds import Job, job_table

OWN = [Job(0, 2, 500, 500, 0, 0), Job(0, 4, 300, 300, 1, 0), Job(0, 1, 900, 900, 2, 0)]
OTHERS = [Job(0, gang, 700, 700, gang, 1) for gang in (1, 2, 3)]


def first_seen(jobs: JobTable, *, alone: bool) -> Observation:
    """By the agent of partition 0, at time 0."""
    env = env_of(mixed_world(), lambda _: jobs, everyone=True, rules=replace(RULES, alone=alone))
    return env.reset(seed=0)[0][env.possible_agents[0]]


@pytest.mark.parametrize("alone", [True, False])
def test_what_waits_elsewhere_is_seen_by_those_who_are_not_alone(alone: bool):
    quiet, busy = (first_seen(job_table(jobs), alone=alone) for jobs in (OWN, [*OWN, *OTHERS]))
    differing = {key for key in quiet if not np.array_equal(quiet[key], busy[key])}
    assert differing == (set() if alone else {"peers", "context", "forwards"})
    assert quiet["jobs"].any()
    assert quiet["pairs"].any()


def test_of_all_rows_about_others_none_is_filled():
    seen = first_seen(job_table([*OWN, *OTHERS]), alone=True)
    assert not seen["forwards"].any()
    assert np.flatnonzero(seen["peers"].any(axis=1)).tolist() == [0]
    assert seen["context"][5] == 1 / 8  # of one partition
    assert seen["context"][6] == 0


def sends_offered(env: SchedulingEnv) -> int:
    """Forwards that were legal in a whole random episode."""
    rng, offered = np.random.default_rng(0), 0
    layout = env.layout
    first = layout.actions - 1 - layout.window * layout.partitions
    observations, _ = env.reset(seed=3)
    while env.agents:
        offered += sum(int(o["action_mask"][first:-1].sum()) for o in observations.values())
        observations = env.step({a: any_legal(rng, o) for a, o in observations.items()})[0]
    return offered


def test_nobody_is_sent_away():
    alone, together = (
        sends_offered(env_of(mixed_world(), MIXED_JOBS, rules=replace(RULES, alone=alone)))
        for alone in (True, False)
    )
    assert alone == 0
    assert together > 0
