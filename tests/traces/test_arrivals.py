"""Arrivals of generated jobs: none are drawn that nobody asked for, and streams go on alike."""

import tracemalloc

import numpy as np

from sim.traces.generator import draw_arrivals, skip
from tests.traces.trace_samples import STEADY

MOST_BYTES = 30_000_000  # an hour of 100,000 jobs takes some


def test_few_jobs_of_a_busy_week_take_no_memory_of_the_week() -> None:
    rngs = [np.random.default_rng(4) for _ in range(2)]
    tracemalloc.start()
    few, many = (
        draw_arrivals(STEADY, n, 1e5, rng) for n, rng in zip((50, 5000), rngs, strict=True)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert few.tolist() == many[:50].tolist() and len(many) == 5000
    assert peak < MOST_BYTES
    assert rngs[0].bit_generator.state == rngs[1].bit_generator.state


def test_what_is_skipped_is_as_if_it_had_been_drawn() -> None:
    for before in (0, 1, 2):  # halves of 64 bits are kept for the next small number
        rngs = [np.random.default_rng(5) for _ in range(2)]
        for rng in rngs:
            rng.integers(168, size=before)
        rngs[0].random(1000)
        skip(rngs[1], 1000)
        assert rngs[0].integers(168, size=9).tolist() == rngs[1].integers(168, size=9).tolist()
