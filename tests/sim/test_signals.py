"""A scheduler sees what its needs name, cannot write, and is told what it forgot to ask for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sim.decision import Decision, Start
from sim.errors import SignalError
from sim.kernel.layout import State
from sim.physics.physics import Physics
from sim.view import ClusterView, Signal, information_of
from tests.sim.scripted import Scripted, looked
from tests.sim.worlds import Job, cluster, play, world

COLUMNS: dict[str, tuple[Signal, Callable[[ClusterView], object]]] = {
    "jobs.duration_s": (Signal.DURATION, lambda view: view.jobs.duration_s),
    "jobs.remaining_s": (Signal.DURATION, lambda view: view.jobs.remaining_s),
    "jobs.estimate_s": (Signal.PREDICTION, lambda view: view.jobs.estimate_s),
    "jobs.predicted_remaining_s": (Signal.PREDICTION, lambda view: view.jobs.predicted_remaining_s),
    "jobs.profile": (Signal.PROFILE, lambda view: view.jobs.profile),
    "view.belief": (Signal.INTERFERENCE, lambda view: view.belief),
}


def look(read: Callable[[ClusterView], Any], needs: Signal) -> Any:
    return looked(world([Job(0, 1, 5, estimate_s=7)], cluster(1, 1)), read, needs=needs)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_needs_its_signal_and_no_other(column: str):
    signal, read = COLUMNS[column]
    look(read, signal)
    others = Signal.DURATION | Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE
    with pytest.raises(SignalError, match=rf"{column} needs {signal.name}.*needs"):
        look(read, others & ~signal)


def test_the_columns_say_what_they_are_named():
    assert look(lambda view: view.jobs.duration_s.tolist(), Signal.DURATION) == [5]
    assert look(lambda view: view.jobs.estimate_s.tolist(), Signal.PREDICTION) == [7]


@pytest.mark.parametrize(
    "window", ["tenants", "tenant", "server_free", "partition_of_server", "nic_jobs", "uplink_jobs"]
)
def test_windows_cannot_be_written_through(window: str):
    def write(view: ClusterView) -> None:
        getattr(view, window)[...] = 1

    with pytest.raises(ValueError, match="read-only"):
        look(write, Signal.NONE)


def test_nothing_public_leads_to_the_whole_state():
    def public(view: ClusterView) -> list[object]:
        return [vars(at)[name] for at in (view, view.jobs) for name in vars(at) if name[0] != "_"]

    assert not any(isinstance(value, State | Physics) for value in look(public, Signal.NONE))


def test_job_columns_cannot_be_written_through():
    with pytest.raises(ValueError, match="read-only"):
        look(lambda view: view.jobs.submit_s.fill(0), Signal.NONE)


def test_information_classes():
    assert information_of(Signal.PROFILE) == "none"
    assert information_of(Signal.PREDICTION | Signal.PROFILE) == "predicted"
    assert information_of(Signal.PREDICTION | Signal.DURATION) == "oracle"


def test_a_partition_s_view_holds_its_own_jobs_and_servers():
    # Partition 0 is servers 0 and 1, partition 1 is server 2; jobs B and D arrive at 1.
    jobs = [Job(0, 1, 5), Job(0, 1, 5, home=1), Job(0, 1, 5), Job(1, 1, 5, home=1)]
    views: list[ClusterView] = []

    def look(view: ClusterView) -> Decision:
        views.append(view.narrowed(1, view.queued[view.jobs.partition[view.queued] == 1]))
        here = [Start(row, np.array([gpu])) for row, gpu in ((0, 0), (1, 2), (2, 1), (3, 2))]
        return Decision(starts=tuple(start for start in here if start.job in view.queued))

    def wait(view: ClusterView) -> Decision:
        views.append(view.narrowed(1, view.queued))
        return Decision()

    play(world(jobs, cluster(3, 1), partitions=2), Scripted(look, wait, look))
    first, second, _ = views
    assert (first.queued.tolist(), first.running.tolist()) == ([1], [])
    assert (second.queued.tolist(), second.running.tolist()) == ([3], [1])
    assert (second.partition, second.servers.tolist(), second.num_partitions) == (1, [2], 2)
    assert second.gpus_of(1).tolist() == [2]
