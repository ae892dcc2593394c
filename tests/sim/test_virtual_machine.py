"""The virtual machine of A-SRPT: preemptive SRPT, optimal against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.ranking.reservation import VirtualMachine


def completions(jobs: list[tuple[float, float]]) -> dict[int, float]:
    """Completion time of each job of (release, work), as whoever wakes at `next_s` sees it."""
    machine, found = VirtualMachine(), {}
    for job in sorted(range(len(jobs)), key=lambda j: jobs[j][0]):
        run_until(machine, jobs[job][0], found)
        machine.submit(job, jobs[job][1])
    run_until(machine, np.inf, found)
    return found


def run_until(machine: VirtualMachine, end_s: float, found: dict[int, float]) -> None:
    while machine.next_s is not None and machine.next_s <= end_s:
        at_s = machine.next_s
        done = machine.advance(at_s)
        assert done, "whoever wakes at next_s finds a job completed"
        found.update(dict.fromkeys(done, at_s))
    if end_s < np.inf:
        assert machine.advance(end_s) == []


def least_total(jobs: list[tuple[float, float]]) -> float:
    """Least total completion time over all choices at every arrival and completion."""

    def best(now_s: float, left: tuple[float, ...]) -> float:
        ready = [j for j, (at, _) in enumerate(jobs) if at <= now_s and left[j] > 0]
        later = [at for at, _ in jobs if at > now_s]
        if not ready:
            return best(min(later), left) if later else 0.0
        totals = []
        for job in ready:
            end_s = min([now_s + left[job], *later])
            rest = left[job] - (end_s - now_s)
            after = (*left[:job], rest, *left[job + 1 :])
            totals.append((end_s if rest == 0 else 0.0) + best(end_s, after))
        return min(totals)

    return best(0.0, tuple(work for _, work in jobs))


# Whole seconds, so that sums are exact.
seconds = st.integers(0, 6).map(float)
works = st.integers(1, 6).map(float)


@settings(max_examples=60, deadline=None)
@given(jobs=st.lists(st.tuples(seconds, works), min_size=1, max_size=4))
def test_it_has_the_least_total_completion_time(jobs):
    assert sum(completions(jobs).values()) == least_total(jobs)


def test_a_shorter_newcomer_takes_over():
    #         0   1   2    4.5
    # machine A   B   C    A      at 1 A has 3 left, B brings 1; C (2.5) waits for B, not for A
    assert completions([(0, 4), (1, 1), (1, 2.5)]) == {1: 2, 2: 4.5, 0: 7.5}


def test_equals_do_not_take_over_and_go_by_row():
    assert completions([(0, 2), (1, 1), (1, 1)]) == {0: 2, 1: 3, 2: 4}


def test_work_below_the_clock_s_grain_is_done_at_once():
    machine = VirtualMachine()
    assert machine.advance(1e9) == []
    machine.submit(3, 1e-9)
    machine.submit(4, 5.0)
    assert machine.advance(1e9) == [3]
    assert machine.next_s == 1e9 + 5.0


def test_a_dropped_job_costs_nothing():
    machine = VirtualMachine()
    machine.advance(0.0)
    for job, work_s in ((0, 1.0), (1, 2.0), (2, 3.0)):
        machine.submit(job, work_s)
    machine.drop(0)
    machine.drop(2)
    machine.drop(7)
    assert (machine.jobs, machine.next_s, len(machine)) == ([1], pytest.approx(2.0), 1)
    assert machine.advance(10.0) == [1]
    assert machine.next_s is None
