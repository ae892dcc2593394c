"""Compiled schedulers against the Python ones: the same log, byte for byte."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim.placing.compactness import fills_largest
from tests.compiled.playing import assert_same_run
from tests.oracle.cases import Case, cases
from tests.oracle.catalogue import ORDERS, PLACERS, SHARINGS

COMPILED_ORDERS = ("fifo", "fifo_skip", "sjf", "smallest_gang", "srtf", "las", "load_balance")
COMPILED_PLACERS = ("first_fit", "worst_fit", "consolidated", "packed", "least_loaded")


def pairwise(case: Case, sharing: str) -> Case:
    """The case, with no more tenants than compiled selective sharing takes."""
    if sharing != "selective" or case.rules.max_tenants <= 2:
        return case
    return replace(case, rules=replace(case.rules, max_tenants=2))


def compact_enough(case: Case, placer: str) -> bool:
    """Whether compact placements are whole servers and one more, now and while some are away."""
    sizes = case.topology.gpus_per_server
    if placer != "consolidated":
        return True
    if len(case.outages) and sizes.min() < sizes.max():
        return False
    return all(fills_largest(sizes, gang) for gang in case.jobs.num_gpus.tolist())


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("placer", COMPILED_PLACERS)
@pytest.mark.parametrize("order", COMPILED_ORDERS)
@settings(max_examples=6)
@given(case=cases(most_partitions=1))
def test_every_order_with_every_placer_and_sharing(
    order: str, placer: str, sharing: str, case: Case
) -> None:
    assume(compact_enough(case, placer))
    assert_same_run(
        pairwise(case, sharing), lambda: ORDERS[order](PLACERS[placer](), SHARINGS[sharing]())
    )


@pytest.mark.parametrize("order", COMPILED_ORDERS)
@settings(max_examples=20)
@given(
    case=cases(most_partitions=1, life=True),
    placer=st.sampled_from(COMPILED_PLACERS),
    sharing=st.sampled_from(sorted(SHARINGS)),
)
def test_while_servers_go_and_jobs_fail_wait_for_others_and_are_withdrawn(
    order: str, placer: str, sharing: str, case: Case
) -> None:
    rules = replace(case.rules, gpu_oversubscription=None)
    plain = replace(case, jobs=replace(case.jobs, demands=None), rules=rules)
    assume(compact_enough(plain, placer))
    assert_same_run(
        pairwise(plain, sharing), lambda: ORDERS[order](PLACERS[placer](), SHARINGS[sharing]())
    )
