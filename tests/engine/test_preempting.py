"""Preemptive schedulers that place compactly: planned in compiled code as Python would search."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from sim.placers.consolidated import Consolidated
from sim.preempting import PreemptiveScheduler
from sim.schedulers.las import Las
from sim.schedulers.srsf import Srsf
from sim.schedulers.srtf import Srtf
from sim.schedulers.tiresias import Tiresias
from sim.schedulers.tiresias_gittins import TiresiasGittins
from sim.sharing.off import NoSharing
from tests.engine.playing import assert_same, played
from tests.oracle.cases import Case, cases

PARTS: dict[str, Any] = {"placer": Consolidated(), "sharing": NoSharing()}
SCHEDULERS: dict[str, Callable[[], PreemptiveScheduler]] = {
    "las": lambda: Las(**PARTS, quantum_gpu_s=4.0),
    "srsf": lambda: Srsf(**PARTS),
    "srtf": lambda: Srtf(**PARTS),
    "tiresias": lambda: Tiresias(**PARTS, thresholds_gpu_s=(4.0, 16.0), promote_knob=2.0),
    "tiresias_gittins": lambda: TiresiasGittins(
        **PARTS, quantum_gpu_s=4.0, least_history=3, refit_growth_frac=0.1
    ),
}


@pytest.mark.parametrize("name", SCHEDULERS)
@settings(max_examples=25)
@given(case=cases(most_partitions=1))
def test_compiled_plans_are_those_that_python_finds(name: str, case: Case) -> None:
    plain = replace(case, jobs=replace(case.jobs, demands=None))
    planning, searching = SCHEDULERS[name](), SCHEDULERS[name]()
    planning._searched = None  # type: ignore[method-assign, assignment]
    searching._planned = searching._searched  # type: ignore[method-assign]
    assert_same(played(plain, planning, compiled=False), played(plain, searching, compiled=False))
