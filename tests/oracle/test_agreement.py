"""The kernel against the reference simulator, on small random worlds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engine.composed import PartitionedScheduler
from tests.oracle.agreement import assert_agreement
from tests.oracle.cases import Case, cases
from tests.oracle.catalogue import FORWARDINGS, ORDERS, PLACERS, SHARINGS
from tests.oracle.random_decider import RandomDecider


def plain_or_full_life(partitions: int) -> st.SearchStrategy[Case]:
    """Half of the cases with traits and outages; there some jobs may wait for ever."""
    plain, full = (
        cases(most_partitions=partitions, most_jobs=20, life=life) for life in (False, True)
    )
    return st.one_of(plain, full)


@settings(max_examples=100)
@given(case=cases(most_partitions=3), seed=st.integers(0, 9))
def test_anything_legal(case: Case, seed: int) -> None:
    run = assert_agreement(case, lambda: RandomDecider(whims=60), seed)
    assert (run.finish_s >= run.jobs.submit_s).all()


@settings(max_examples=200)
@given(case=cases(most_partitions=3, life=True), seed=st.integers(0, 9))
def test_anything_legal_through_all_of_life(case: Case, seed: int) -> None:
    assert_agreement(case, lambda: RandomDecider(whims=60), seed)


@pytest.mark.parametrize("placer", PLACERS)
@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=4)
@given(case=plain_or_full_life(1), seed=st.integers(0, 9))
def test_every_order_with_every_placer_and_sharing(
    order: str, placer: str, case: Case, seed: int
) -> None:
    for sharing in SHARINGS.values():
        assert_agreement(case, lambda s=sharing: ORDERS[order](PLACERS[placer](), s()), seed)


@pytest.mark.parametrize("forwarding", FORWARDINGS)
@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=10)
@given(
    case=plain_or_full_life(3),
    placer=st.sampled_from(sorted(PLACERS)),
    sharing=st.sampled_from(sorted(SHARINGS)),
)
def test_every_order_with_every_forwarding(
    order: str, forwarding: str, case: Case, placer: str, sharing: str
) -> None:
    def make() -> PartitionedScheduler:
        child = ORDERS[order](PLACERS[placer](), SHARINGS[sharing]())
        return PartitionedScheduler(child=child, forwarding=FORWARDINGS[forwarding]())

    assert_agreement(case, make, 1)


@settings(max_examples=80)
@given(
    case=cases(most_partitions=2, most_jobs=30, physics=True, mixes=True), seed=st.integers(0, 9)
)
def test_anything_legal_where_three_share_a_gpu_and_hosts_are_scarce(case: Case, seed: int) -> None:
    assert_agreement(case, lambda: RandomDecider(whims=60), seed)


@settings(max_examples=80)
@given(case=cases(most_partitions=2, mixes=True, life=True), seed=st.integers(0, 9))
def test_parts_of_gpus_and_servers_that_go_away(case: Case, seed: int) -> None:
    assert_agreement(case, lambda: RandomDecider(whims=60), seed)


@settings(max_examples=15)
@given(
    case=cases(most_partitions=1, most_jobs=25, mixes=True),
    sharing=st.sampled_from([name for name in sorted(SHARINGS) if name != "off"]),
)
def test_rules_that_are_told_a_table(case: Case, sharing: str) -> None:
    def make():
        return ORDERS["lif"](PLACERS["least_interference"](), SHARINGS[sharing]())

    run = assert_agreement(case, make, 1)
    assert np.isfinite(run.finish_s).all()
