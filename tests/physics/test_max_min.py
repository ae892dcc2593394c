"""Max-min sharing: cases worked by hand, and what must hold of every filling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.physics.max_min import make_part, share_max_min
from tests.physics.network_twin import fill

Weights = list[dict[int, float]]


def share(weights: Weights, capacity: list[float]) -> list[float]:
    first = np.cumsum([0, *map(len, weights)])
    part = make_part(links=len(capacity), jobs=len(weights), entries=int(first[-1]))
    part.job["first"] = first
    part.entry["link"][: first[-1]] = [link for job in weights for link in job]
    part.entry["weight"][: first[-1]] = [weight for job in weights for weight in job.values()]
    share_max_min(part, len(weights), np.array(capacity))
    assert not part.link["rising"].any(), "scratch is not left clean"
    assert not part.link["is_changed"].any()
    return part.job["rate"][:-1].tolist()


THREE = [{0: 1.0, 3: 1.0}, {1: 1.0, 3: 1.0}, {2: 1.0, 3: 1.0}]  # own NICs, one uplink
A, B, C = {0: 1.0}, {0: 1.0, 1: 1.0}, {1: 1.0}


@pytest.mark.parametrize(
    ("jobs", "capacity", "rates"),
    [
        ([{0: 1.0}, {0: 1.0}], [10.0], [5.0, 5.0]),
        # Job 1 puts half of its heaviest link's bytes here: 1 r + 0.5 r = 9, so both run at 6.
        ([{0: 1.0}, {0: 0.5, 1: 1.0}], [9.0, 100.0], [6.0, 6.0]),
        # Everybody rises to 24 / 3 = 8, where the uplink is full; no NIC is. At 40 it is no limit.
        (THREE, [10.0, 10.0, 10.0, 24.0], [8.0, 8.0, 8.0]),
        (THREE, [10.0, 10.0, 10.0, 40.0], [10.0, 10.0, 10.0]),
        # A slow NIC of 4 stops job 0; the others share what it leaves: (24 - 4) / 2.
        (THREE, [4.0, 12.0, 12.0, 24.0], [4.0, 10.0, 10.0]),
        ([{}, {0: 1.0}], [3.0], [float("inf"), 3.0]),  # a job without links is not held up
        # C on link 1 squeezes B, which leaves A more on link 0: no bug.
        ([A, B], [10.0, 6.0], [5.0, 5.0]),
        ([A, B, C], [10.0, 6.0], [7.0, 3.0, 3.0]),
        # Link 2 stops job 0 at 0.5; link 0 keeps job 1's 1e-17, which rounding has swallowed.
        ([{0: 1.0, 2: 1.0}, {0: 1e-17, 1: 1.0}], [1.0, 5.0, 0.5], [0.5, 5.0]),
    ],
)
def test_by_hand(jobs, capacity, rates):
    assert share(jobs, capacity) == rates


@st.composite
def cases(draw) -> tuple[Weights, list[float]]:
    links = draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    even = draw(st.booleans())  # equal weights and capacities make ties
    weights = []
    for _ in range(draw(st.integers(1, 12))):
        chosen = np.sort(rng.choice(links, rng.integers(1, links + 1), replace=False))
        share_of = np.ones(len(chosen)) if even else rng.uniform(0.01, 1.0, len(chosen))
        share_of = share_of / share_of.max()
        weights.append(dict(zip(chosen.tolist(), share_of.tolist(), strict=True)))
    capacity = rng.integers(1, 4, links) * 1.0 if even else rng.uniform(0.1, 10.0, links)
    return weights, capacity.tolist()


def used(weights: Weights, rates: list[float], link: int) -> float:
    return sum(job.get(link, 0.0) * rate for job, rate in zip(weights, rates, strict=True))


@given(cases())
def test_no_link_above_capacity_and_every_job_has_its_bottleneck(case):
    """The definition: a full link on which no job is faster, for every job."""
    weights, capacity = case
    rates = share(weights, capacity)
    for link, most in enumerate(capacity):
        assert used(weights, rates, link) <= most * (1 + 1e-9)
    for job, rate in zip(weights, rates, strict=True):
        assert any(
            used(weights, rates, link) >= capacity[link] * (1 - 1e-9)
            and all(r <= rate * (1 + 1e-9)
                    for other, r in zip(weights, rates, strict=True) if link in other)
            for link in job
        )  # fmt: skip


@given(cases(), st.randoms(use_true_random=False))
def test_order_of_jobs_changes_nothing(case, random):
    weights, capacity = case
    order = list(range(len(weights)))
    random.shuffle(order)
    shuffled = share([weights[job] for job in order], capacity)
    assert shuffled == pytest.approx([share(weights, capacity)[job] for job in order], rel=1e-9)


@given(cases())
def test_equals_the_twin_to_the_last_bit(case):
    weights, capacity = case
    assert share(weights, capacity) == fill(weights, capacity)


@given(cases())
def test_the_slowest_job_never_gains_from_company(case):
    """Adding a job may speed some up, but never lifts the least rate."""
    weights, capacity = case
    fewer = share(weights[:-1], capacity)
    if fewer:
        assert min(share(weights, capacity)) <= min(fewer) * (1 + 1e-9)


@given(cases())
def test_parts_that_share_no_link_do_not_see_each_other(case):
    weights, capacity = case
    shifted = [{link + len(capacity): w for link, w in job.items()} for job in weights]
    other = [most * 1.3 for most in capacity]
    mixed = [job for pair in zip(weights, shifted, strict=True) for job in pair]
    rates = share(mixed, capacity + other)
    assert rates[::2] == share(weights, capacity)
    assert rates[1::2] == share(weights, other)
