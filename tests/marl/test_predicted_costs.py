"""What is observed is filled, and what a pair row predicts is what the kernel does.

The belief is the physics here.
"""

from dataclasses import replace

import numpy as np
import pytest

from marl.env.actions import MODES
from sim.physics.mix_table import PowerLaw
from sim.scoring.table import OfContext, OfForward, OfGpu, OfJob, OfPair, OfPeer, OfServer
from tests.marl.playing import Round, play, starts_of, tried
from tests.marl.worlds import RULES, RandomJobs, mixed_world, plain_world, rich_physics, world_of
from tests.sim.worlds import Job, cluster, job_table, physics_of

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
