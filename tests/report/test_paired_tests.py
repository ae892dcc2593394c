"""Paired ratios and Holm's correction, by hand."""

import pytest

from sim.report.comparison import ComparisonRow, Labels
from sim.report.standings import paired_tests


def run_of(scheduler: str, role: str, window: int, tflops: float) -> ComparisonRow:
    labels = Labels(
        scheduler=scheduler, topology="t", workload="w", load=1.0, agents=1, seed=0, window=window,
        information="none", interference_info="none", physics="york", role=role,
    )  # fmt: skip
    return ComparisonRow(labels, {"throughput_tflops": tflops})


def test_pairs_are_of_one_window_and_holm_corrects_for_the_baselines():
    ours = [run_of("topdrl", "ours", window, tflops) for window, tflops in ((0, 20.0), (1, 42.0))]
    found = paired_tests(
        "c",
        {
            "topdrl": ours,
            "a": [run_of("a", "published", 1, 20.0), run_of("a", "published", 0, 10.0)],
            "b": [run_of("b", "published", 0, 20.0), run_of("b", "published", 1, 42.0)],
            "c": [run_of("c", "reference", 0, 10.0), run_of("c", "reference", 1, 10.0)],
        },
        ours="topdrl",
        metric="throughput_tflops",
        confidence=0.95,
    )
    told = {test["against"]: test for test in found}
    assert told["a"]["ratio"] == pytest.approx((2.0 * 2.1) ** 0.5)
    assert told["b"]["ratio"] == pytest.approx(1.0)
    assert told["a"]["p_holm"] == pytest.approx(2 * told["a"]["p"])
    assert "p_holm" not in told["c"]
