"""The kernel against the reference where three and more jobs share a GPU and hosts are scarce."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.agreement import assert_agreement
from tests.oracle.cases import Case, cases
from tests.oracle.catalogue import ORDERS, PLACERS, SHARINGS
from tests.oracle.random_decider import RandomDecider


@settings(max_examples=80)
@given(
    case=cases(most_partitions=2, most_jobs=30, physics=True, mixes=True), seed=st.integers(0, 9)
)
def test_anything_legal(case: Case, seed: int) -> None:
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
