"""What is read off running jobs: who counts, what is taken out, and what nobody may see."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from interference.online import Observations, observe
from sim.decision import Decision, Start
from sim.errors import SignalError
from sim.jobs import Demands
from sim.signals import Signal, information_of
from sim.view import ClusterView
from tests.sim.scripted import Scripted
from tests.sim.worlds import Job, cluster, physics_of, play, world

READS = Signal.PROFILE | Signal.INTERFERENCE | Signal.SPEED
TRUTH = ((1.5, 1.2, 2.0), (3.0, 1.4, 1.1), (1.3, 1.6, 1.8))  # [victim][aggressor]


def shared(view: ClusterView) -> Decision:
    """Starts A and B on GPU 0, C on GPU 1, as far as they wait."""
    gpu = {0: 0, 1: 0, 2: 1}
    waiting = [job for job in view.queued.tolist() if job in gpu]
    return Decision(starts=tuple(Start(job, np.array([gpu[job]])) for job in waiting), wake_s=5.0)


def look_at(
    jobs: Sequence[Job], *, needs: Signal = READS, start: Any = shared, **options: Any
) -> list[tuple[int, int, int, float, float]]:
    """What is observed at time 5 of jobs that were started at 0."""
    found: list[Observations] = []

    def watch(view: ClusterView) -> Decision:
        found.append(observe(view, view.jobs.step_s))
        return Decision()

    topology = options.pop("topology", cluster(1, 2))
    physics = options.pop("physics", physics_of(topology, slowdown=TRUTH))
    play(
        world(jobs, topology, physics=physics, **{"max_tenants": 2, **options}),
        Scripted(start, watch, start, start, start, needs=needs),
    )
    return list(zip(*(column.tolist() for column in found[0][1:]), strict=True))


PAIR = [Job(0, 1, 50, profile=0), Job(0, 1, 50, profile=2), Job(0, 1, 50, profile=1)]


def test_both_sides_of_a_pair_and_nobody_who_is_alone():
    assert look_at(PAIR) == [(0, 0, 2, 2.0, 1.0), (0, 2, 0, pytest.approx(1.3), 1.0)]


def test_communication_is_taken_out():
    # Two servers of one GPU, 3 s between servers, with a second gang on the NICs 6 s; a step
    # of 2 and 1.3 s of compute.
    topology = cluster(2, 1)
    physics = physics_of(topology, slowdown=TRUTH, server_s=[0, 0, 3.0], nic_factor=[1.0, 1.0, 2.0])
    both = Decision(starts=(Start(0, np.arange(2)), Start(1, np.arange(2))), wake_s=5.0)
    seen = look_at(
        [Job(0, 2, 50, profile=0), Job(0, 2, 50, profile=2)],
        topology=topology, physics=physics, start=lambda _: both,
    )  # fmt: skip
    assert [row[3] for row in seen] == pytest.approx([2.0, 1.3])
    assert [row[4] for row in seen] == pytest.approx([2.0 / 8.0, 1.3 / 7.3])


def test_neighbours_of_two_profiles_are_ambiguous():
    # A spans both GPUs; B and C each sit beside it.
    gpus = {0: [0, 1], 1: [0], 2: [1]}
    jobs = [Job(0, 2, 50), Job(0, 1, 50, profile=2), Job(0, 1, 50, profile=1)]

    def start(view: ClusterView) -> Decision:
        waiting = view.queued.tolist()
        return Decision(
            starts=tuple(Start(job, np.array(gpus[job])) for job in waiting), wake_s=5.0
        )

    assert [row[1] for row in look_at(jobs, start=start)] == [2, 1]
    alike = [*jobs[:2], Job(0, 1, 50, profile=2)]
    assert [row[1:4] for row in look_at(alike, start=start)] == [
        (0, 2, 2.0), (2, 0, pytest.approx(1.3)), (2, 0, pytest.approx(1.3))
    ]  # fmt: skip


def test_a_third_tenant_is_ambiguous():
    def start(view: ClusterView) -> Decision:
        starts = [Start(job, np.array([0])) for job in view.queued.tolist()]
        return Decision(starts=tuple(starts), wake_s=5.0)

    assert look_at(PAIR, start=start, max_tenants=3) == []


def test_parts_of_gpus_are_left_out():
    ask = Demands(
        gpu_milli=np.array([1000, 500, 1000]),
        cpu_milli=np.zeros(3, np.int64), memory_mib=np.zeros(3, np.int64),
        type_mask=np.full(3, -1),
    )  # fmt: skip
    assert [row[1] for row in look_at(PAIR, traits={"demands": ask})] == [2]


def test_nothing_is_seen_of_a_pair_while_one_of_them_restarts():
    # B leaves GPU 0 at 1 and comes back at 2; its restart takes until 12.
    counts: list[tuple[float, int]] = []
    away = Decision(preempts=(1,), starts=(Start(1, np.array([1])),), wake_s=2.0)
    back = Decision(preempts=(1,), starts=(Start(1, np.array([0])),), wake_s=3.0)

    def watch(view: ClusterView) -> Decision:
        counts.append((view.now_s, len(observe(view, view.jobs.step_s).victim)))
        return Decision(wake_s=20.0 if view.now_s < 20.0 else None)

    script = (lambda view: replace(shared(view), wake_s=1.0), away, back, watch, watch)
    topology = cluster(1, 2)
    physics = physics_of(topology, slowdown=TRUTH)
    play(
        world(PAIR[:2], topology, physics=physics, max_tenants=2, restart_s=10.0),
        Scripted(*script, needs=READS),
    )
    assert counts == [(3.0, 0), (20.0, 2)]


def test_another_partition_s_jobs_are_not_seen():
    # Four single-GPU jobs, two on each of two servers; servers are partitions.
    jobs = [Job(0, 1, 50, profile=p, home=home) for home in (0, 1) for p in (0, 2)]
    counts: list[int] = []

    def start(view: ClusterView) -> Decision:
        gpu = view.jobs.partition[view.queued].tolist()
        starts = [Start(j, np.array([g])) for j, g in zip(view.queued, gpu, strict=True)]
        return Decision(starts=tuple(starts), wake_s=5.0)

    def watch(view: ClusterView) -> Decision:
        nobody = view.queued[:0]
        parts = [view, view.narrowed(0, nobody), view.narrowed(1, nobody)]
        counts.extend(len(observe(part, part.jobs.step_s).victim) for part in parts)
        return Decision()

    topology = cluster(2, 1)
    physics = physics_of(topology, slowdown=TRUTH)
    play(
        world(jobs, topology, physics=physics, partitions=2, max_tenants=2),
        Scripted(start, watch, needs=READS),
    )
    assert counts == [4, 2, 2]


def test_a_step_is_shown_of_running_jobs_only():
    steps: list[list[float]] = []

    def look(view: ClusterView) -> Decision:
        steps.append(view.jobs.step_s.tolist())
        start = Start(int(view.queued[0]), np.array([0]))
        return Decision(starts=(start,) if view.tenants[0] == 0 else ())

    topology = cluster(1, 1)
    physics = physics_of(topology, compute_s=[0.25])
    jobs = [Job(0, 1, 50), Job(1, 1, 50), Job(60, 1, 50)]
    play(world(jobs, topology, physics=physics), Scripted(*[look] * 5, needs=READS))
    nothing = pytest.approx(np.nan, nan_ok=True)
    assert steps[0] == [nothing] * 3
    assert steps[1] == [0.25, nothing, nothing]  # B has arrived, and waits


def test_a_step_leaves_out_how_checkpoints_slow_a_job_down():
    options = {"checkpoint_work_s": 10.0, "checkpoint_s": 10.0}
    assert look_at(PAIR, **options)[0][3] == pytest.approx(2.0)


def test_a_view_without_the_signal_refuses():
    with pytest.raises(SignalError, match=r"jobs\.step_s needs SPEED"):
        look_at(PAIR, needs=Signal.DURATION | Signal.PREDICTION | READS & ~Signal.SPEED)


def test_speeds_tell_nothing_of_durations():
    assert information_of(READS) == "none"
