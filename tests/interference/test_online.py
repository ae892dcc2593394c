"""A belief that follows observed speeds: the update, and the scheduler around it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from interference.online import (
    DriftedInterference,
    Evidence,
    Observations,
    OnlineScheduler,
    Spread,
    no_evidence,
    posterior_table,
    updated,
)
from sim.arrays import FloatArray
from sim.engine.composed import PartitionedScheduler
from sim.errors import GpuYardError, PhysicsError
from sim.forwarding import Steal
from sim.physics.mix_table import PairTable
from sim.physics.physics import Physics
from sim.physics.shipped_files import NoInterference, ShippedInterference, ShippedProfiles
from sim.placers.by_room import Consolidated
from sim.protocols import Scheduler
from sim.run import Run
from sim.schedulers.orders import Sjf
from sim.sharing import SelectiveSharing
from sim.signals import Signal
from tests.sim.scripted import Scripted
from tests.sim.worlds import Job, cluster, physics_of, play, world

READS = Signal.PROFILE | Signal.INTERFERENCE | Signal.SPEED
TRUTH = ((1.5, 1.2, 2.0), (3.0, 1.4, 1.1), (1.3, 1.6, 1.8))  # [victim][aggressor]
FOR_EVER = float("inf")


def table_of(slowdown: Sequence[Sequence[float]]) -> PairTable:
    table = np.array([slowdown], dtype=np.float64)
    return PairTable(slowdown=table, feasible=np.ones(table.shape, np.bool_), source="hand")


def seen_of(
    at_s: float, *rows: tuple[int, int, float], share: float = 1.0
) -> Observations:  # (victim, aggressor, slow-down)
    victim, aggressor, slowdown = (np.array(column) for column in zip(*rows, strict=True))
    zeros = np.zeros(len(rows), dtype=np.int64)
    return Observations(at_s, zeros, victim, aggressor, slowdown, np.full(len(rows), share))


def online(scheduler: Scheduler, **given: Any) -> OnlineScheduler:
    spread = Spread(victim=0.2, aggressor=0.2, pair=0.3, observation=0.05)
    plain = {
        "spread": spread, "half_life_s": FOR_EVER, "observe_every_s": 10.0, "least_move": 0.02,
        "noise_sigma": 0.0,
    }  # fmt: skip
    return OnlineScheduler(scheduler=scheduler, **{**plain, **given})


def sharing(order: type[Sjf] = Sjf, threshold: float = 1.2) -> Sjf:
    return order(
        placer=Consolidated(), sharing=SelectiveSharing(threshold=threshold), skip_blocked=True
    )


class TestUpdate:
    def test_one_pair_is_the_textbook_normal_update(self):
        # Terms of victims and aggressors are as good as fixed: prior N(ln 1.5, 0.3^2), three
        # observations of variance 0.1^2, so precision 1/0.09 = 11.1 and 3/0.01 = 300.
        spread = Spread(victim=1e-6, aggressor=1e-6, pair=0.3, observation=0.1)
        seen = seen_of(0.0, (0, 1, 2.0), (0, 1, 2.2), (0, 1, 2.5))
        evidence = updated(no_evidence(1, 2), seen, FOR_EVER)
        found = posterior_table(table_of([[1.5, 1.5], [1.5, 1.5]]), evidence, spread).slowdown[0]
        mean = (np.log(1.5) / 0.09 + np.log(2.0 * 2.2 * 2.5) / 0.01) / (1 / 0.09 + 3 / 0.01)
        assert found[0, 1] == pytest.approx(np.exp(mean), rel=1e-9)
        assert found[[0, 1, 1], [0, 0, 1]] == pytest.approx(1.5)

    def test_one_surprise_is_shared_out_by_variance(self):
        # One observation r = ln(2/1) of u + w + e + noise with variances 0.04, 0.01, 0.09, 0.01:
        # each term's posterior mean is its share of the variance, times r.
        spread = Spread(victim=0.2, aggressor=0.1, pair=0.3, observation=0.1)
        evidence = updated(no_evidence(1, 3), seen_of(0.0, (0, 1, 3.0)), FOR_EVER)
        prior = table_of(np.full((3, 3), 1.5).tolist())
        found = np.log(posterior_table(prior, evidence, spread).slowdown[0] / 1.5) / np.log(2.0)
        u, w, e = 0.04 / 0.15, 0.01 / 0.15, 0.09 / 0.15
        assert found == pytest.approx(np.array([[u, u + w + e, u], [0, w, 0], [0, w, 0]]))

    def test_many_cells_agree_with_the_posterior_of_all_terms_at_once(self):
        rng = np.random.default_rng(0)
        spread = Spread(victim=0.3, aggressor=0.2, pair=0.15, observation=0.1)
        prior = table_of(rng.uniform(1.5, 3.0, (4, 4)).tolist())
        rows = [(int(v), int(a), float(rng.uniform(2, 3))) for v, a in rng.integers(4, size=(9, 2))]
        evidence = updated(no_evidence(1, 4), seen_of(0.0, *rows), FOR_EVER)
        found = np.log(posterior_table(prior, evidence, spread).slowdown / prior.slowdown)[0]
        # u (4), w (4), e (16) jointly: covariance of terms and data, nothing integrated out.
        maps = np.zeros((len(rows), 24))
        for at, (v, a, _) in enumerate(rows):
            maps[at, [v, 4 + a, 8 + 4 * v + a]] = 1.0
        sd = np.repeat([spread.victim, spread.aggressor, spread.pair], [4, 4, 16])
        gain = np.diag(sd**2) @ maps.T
        noise = spread.observation**2 * np.eye(len(rows))
        surprise = [np.log(s / prior.slowdown[0, v, a]) for v, a, s in rows]
        terms = gain @ np.linalg.solve(maps @ gain + noise, surprise)
        assert found == pytest.approx(
            terms[:4, None] + terms[None, 4:8] + terms[8:].reshape(4, 4), abs=1e-9
        )

    def test_converges_to_a_constant_truth_through_noise(self):
        rng, spread = np.random.default_rng(1), Spread(
            victim=0.2, aggressor=0.2, pair=0.3, observation=0.2
        )  # fmt: skip
        truth, prior = np.array(TRUTH), table_of(np.full((3, 3), 1.2).tolist())
        errors = []
        evidence = no_evidence(1, 3)
        for number in range(400):
            noisy = truth * np.exp(rng.normal(0.0, 0.2, truth.shape))
            rows = [(v, a, float(noisy[v, a])) for v, a in np.ndindex(3, 3)]
            evidence = updated(evidence, seen_of(float(number), *rows), FOR_EVER)
            table = posterior_table(prior, evidence, spread).slowdown[0]
            errors.append(np.abs(np.log(table / truth)).max())
        assert errors[0] > 0.1
        assert errors[-1] < 0.04
        assert evidence.weight[0] == pytest.approx(400.0)

    def test_forgets_what_a_drift_has_overtaken(self):
        spread = Spread(victim=0.2, aggressor=0.2, pair=0.3, observation=0.05)
        prior = table_of([[1.5]])

        def believed(half_life_s: float) -> float:
            evidence = no_evidence(1, 1)
            for number in range(40):
                slowdown = 1.5 if number < 20 else 2.5
                seen = seen_of(100.0 * number, (0, 0, slowdown))
                evidence = updated(evidence, seen, half_life_s)
            return float(posterior_table(prior, evidence, spread).slowdown[0, 0, 0])

        assert believed(300.0) == pytest.approx(2.5, rel=0.02)
        assert believed(FOR_EVER) == pytest.approx(np.sqrt(1.5 * 2.5), rel=0.01)

    def test_evidence_halves_in_a_half_life_and_the_belief_returns(self):
        spread = Spread(victim=0.2, aggressor=0.2, pair=0.3, observation=0.05)
        old = updated(no_evidence(1, 2), seen_of(0.0, (0, 1, 3.0)), 50.0)
        half = updated(old, seen_of(50.0, (1, 1, 1.5)), 50.0)
        assert half.weight[0].tolist() == [[0.0, 0.5], [0.0, 1.0]]
        assert half.mean()[0, 0, 1] == pytest.approx(np.log(3.0))  # faded, not changed
        late = updated(old, seen_of(50.0 * 40, (1, 1, 1.5)), 50.0)
        table = posterior_table(table_of([[1.5, 1.5], [1.5, 1.5]]), late, spread)
        assert table.slowdown[0] == pytest.approx(1.5, rel=1e-6)

    def test_a_step_that_is_mostly_communication_says_less(self):
        evidence = updated(no_evidence(1, 1), seen_of(0.0, (0, 0, 3.0), share=0.5), FOR_EVER)
        assert evidence.weight[0, 0, 0] == 0.25

    def test_no_slow_down_falls_below_one(self):
        spread = Spread(victim=0.2, aggressor=0.2, pair=0.3, observation=0.05)
        evidence = updated(no_evidence(1, 1), seen_of(0.0, (0, 0, 0.5)), FOR_EVER)
        assert posterior_table(table_of([[1.1]]), evidence, spread).slowdown[0, 0, 0] == 1.0

    def test_a_spread_of_nothing_is_refused(self):
        with pytest.raises(GpuYardError, match=r"spread\.pair is 0"):
            Spread(victim=0.2, aggressor=0.2, pair=0, observation=0.05)


def busy(rng: np.random.Generator, count: int, homes: int = 1) -> list[Job]:
    """More work than four servers can do alone, of three profiles."""
    return [
        Job(
            float(5 * row), int(rng.choice([1, 1, 2, 4])), float(rng.integers(20, 200)),
            profile=int(rng.integers(3)), home=row % homes,
        )
        for row in range(count)
    ]  # fmt: skip


def told(physics: Physics, slowdown: FloatArray) -> Physics:
    return replace(physics, pairs=replace(physics.pairs, slowdown=slowdown))


class TestScheduler:
    @pytest.mark.parametrize("partitions", [1, 2])
    def test_with_the_truth_it_decides_as_the_scheduler_inside(self, partitions: int):
        topology = cluster(4, 2)
        physics = physics_of(topology, slowdown=TRUTH, server_s=[0, 0, 0.4, 0.5, 0.6])
        jobs = busy(np.random.default_rng(2), 120, partitions)

        def log_of(scheduler: Scheduler) -> tuple[bytes, ...]:
            log = play(
                world(jobs, topology, physics=physics, partitions=partitions, max_tenants=2),
                scheduler,
            ).log
            return log.time_s.tobytes(), log.job.tobytes(), np.concatenate(log.gpus).tobytes()

        def inside() -> Scheduler:
            if partitions == 1:
                return sharing()
            return PartitionedScheduler(child=sharing(), forwarding=Steal())

        outside = online(inside())
        assert log_of(outside) == log_of(inside())
        assert outside.evidence is not None
        assert outside.evidence.weight.sum() > 50  # it did look

    def test_a_wrong_belief_is_put_right_and_decides_otherwise(self):
        # Believed: everyone runs beside everyone at no cost. In truth profile 1 suffers badly
        # beside 0. A and B meet, C's arrival is when that is seen, and D and E are kept apart.
        topology = cluster(1, 1)
        physics = physics_of(topology, slowdown=((1.2, 1.2), (5.0, 1.2)))
        wrong = told(physics, np.ones((1, 2, 2)))
        jobs = [
            Job(0, 1, 100, profile=0), Job(0, 1, 20, profile=1), Job(10, 1, 1),
            Job(1000, 1, 100, profile=0), Job(1000, 1, 20, profile=1),
        ]  # fmt: skip

        def starts_s(scheduler: Scheduler) -> list[float]:
            simulator = world(jobs, topology, physics=physics, belief=wrong, max_tenants=2)
            return play(simulator, scheduler).start_s[[0, 1, 3, 4]].tolist()

        assert starts_s(sharing(threshold=1.5)) == [0.0, 0.0, 1000.0, 1000.0]
        alone = starts_s(online(sharing(threshold=1.5)))
        assert sorted(alone)[:3] == [0.0, 0.0, 1000.0]
        assert max(alone) in {1020.0, 1100.0}  # when the other of the two has finished

    def test_it_does_not_peek_at_durations_of_unfinished_jobs(self):
        topology = cluster(4, 2)
        physics = physics_of(topology, slowdown=TRUTH)
        wrong = told(physics, np.full((1, 3, 3), 1.3))
        jobs = [job._replace(estimate_s=10.0) for job in busy(np.random.default_rng(4), 80)]

        def run_of(jobs: Sequence[Job]) -> Run:
            simulator = world(jobs, topology, physics=physics, belief=wrong, max_tenants=2)
            return play(simulator, online(sharing()))

        run = run_of(jobs)
        cut_s = float(np.median(run.finish_s))
        later = [
            job if finish_s <= cut_s else job._replace(duration_s=2 * job.duration_s)
            for job, finish_s in zip(jobs, run.finish_s.tolist(), strict=True)
        ]
        logs = [found.log for found in (run, run_of(later))]
        before = [
            list(zip(log.time_s, log.kind, log.job, map(bytes, log.gpus), strict=True))
            for log in logs
        ]
        early = [[event for event in events if event[0] < cut_s] for events in before]
        assert early[0] == early[1]
        assert len(early[0]) > 80
        assert before[0] != before[1]

    def test_noise_is_the_seed_s_and_changes_what_is_believed(self):
        topology = cluster(2, 2)
        physics = physics_of(topology, slowdown=TRUTH)
        jobs = busy(np.random.default_rng(3), 60)

        def evidence(seed: int, sigma: float) -> Evidence:
            scheduler = online(sharing(), noise_sigma=sigma)
            play(world(jobs, topology, physics=physics, max_tenants=2), scheduler, seed)
            assert scheduler.evidence is not None
            return scheduler.evidence

        same = evidence(5, 0.1).total
        assert evidence(5, 0.1).total.tobytes() == same.tobytes()
        assert not np.array_equal(evidence(6, 0.1).total, same)
        exact = evidence(5, 0.0)
        cells = exact.weight[0] > 0
        assert exact.mean()[0][cells] == pytest.approx(np.log(np.array(TRUTH)[cells]))

    def test_a_run_starts_anew_or_from_the_evidence_given(self):
        topology = cluster(1, 1)
        physics = physics_of(topology, slowdown=TRUTH)
        jobs = [Job(0, 1, 100, profile=0), Job(0, 1, 100, profile=1), Job(20, 1, 10)]

        def seen(scheduler: OnlineScheduler) -> float:
            play(world(jobs, topology, physics=physics, max_tenants=2), scheduler)
            assert scheduler.evidence is not None
            return float(scheduler.evidence.weight.sum())

        scheduler = online(sharing(threshold=0.5))
        once = seen(scheduler)
        assert once > 0
        assert seen(scheduler) == once
        assert scheduler.evidence is not None
        before = replace(scheduler.evidence, at_s=0.0)
        assert seen(scheduler.continued(before)) == 2 * once

    def test_it_looks_no_more_often_than_it_is_told_to(self):
        topology = cluster(1, 1)
        physics = physics_of(topology, slowdown=((1.0, 1.0), (1.0, 1.0)))
        jobs = [Job(0, 1, 100, profile=p) for p in (0, 1)]
        jobs += [Job(5 * row, 1, 1) for row in range(1, 11)]  # a question every 5 s

        def looks(every_s: float) -> float:
            scheduler = online(sharing(threshold=0.5), observe_every_s=every_s)
            play(world(jobs, topology, physics=physics, max_tenants=2), scheduler)
            assert scheduler.evidence is not None
            return float(scheduler.evidence.weight[0, 0, 1])

        assert (looks(5.0), looks(20.0), looks(1000.0)) == (10.0, 2.0, 0.0)

    def test_whoever_cannot_be_told_anew_is_refused(self):
        with pytest.raises(GpuYardError, match="scripted reads its belief once"):
            online(Scripted())

    @pytest.mark.parametrize(
        ("key", "value"), [("half_life_s", 0.0), ("least_move", 0.0), ("noise_sigma", -1.0)]
    )
    def test_numbers_out_of_range_are_refused(self, key: str, value: float):
        with pytest.raises(GpuYardError, match=rf"belief\.update\.{key} is {value}"):
            online(sharing(), **{key: value})


def test_factors_are_a_victim_s_times_an_aggressor_s():
    catalogue, model = ShippedProfiles(), ShippedInterference()
    before = model.pair_table(catalogue)
    after = DriftedInterference(model=model, sigma=0.5, steps=1, seed=3).pair_table(catalogue)
    some = before.slowdown > 1.0
    assert np.array_equal(after.slowdown > 1.0, some)
    assert np.array_equal(after.feasible, before.feasible)
    excess = [np.where(some, table.slowdown - 1, 1) for table in (after, before)]
    ratio = np.log(excess[0] / excess[1])
    for kind in range(len(catalogue.gpu_types)):
        rows = some[kind].all(axis=1)
        block = ratio[kind][rows]
        centred = block - block.mean(axis=0) - block.mean(axis=1)[:, None] + block.mean()
        assert np.abs(centred).max() < 1e-9
    assert ratio[some].std() == pytest.approx(0.5 * np.sqrt(2), rel=0.25)
    assert after.source == "drifted shipped"


def test_steps_go_on_from_one_another():
    catalogue, model = ShippedProfiles(), ShippedInterference()

    def ln_excess(steps: int) -> FloatArray:
        drift = DriftedInterference(model=model, sigma=0.3, steps=steps, seed=0)
        slowdown = drift.pair_table(catalogue).slowdown
        return np.log(np.maximum(slowdown - 1.0, 1e-12))

    far = [np.abs(ln_excess(steps) - ln_excess(0)).mean() for steps in (1, 4, 16)]
    assert 0 < far[0] < far[1] < far[2]
    assert np.abs(ln_excess(5) - ln_excess(4)).mean() < 1.5 * far[0]


def test_no_step_is_no_drift():
    catalogue, model = ShippedProfiles(), ShippedInterference()
    still = DriftedInterference(model=model, sigma=0.3, steps=0, seed=0).pair_table(catalogue)
    assert still.source == "shipped"
    assert np.array_equal(still.slowdown, model.pair_table(catalogue).slowdown)


@pytest.mark.parametrize(("sigma", "steps"), [(-0.1, 1), (float("nan"), 1), (0.1, -1)])
def test_values_out_of_range_are_refused(sigma: float, steps: int):
    with pytest.raises(PhysicsError, match=r"interference\.(sigma|steps) is"):
        DriftedInterference(model=NoInterference(), sigma=sigma, steps=steps, seed=0)
