"""One row of a comparison: what the run was, and its metrics."""

from collections.abc import Mapping
from dataclasses import dataclass

from sim.report.labels import Labels


@dataclass(frozen=True)
class ComparisonRow:
    """Labels and metrics of one run."""

    labels: Labels
    metrics: Mapping[str, float | int]  # keys of metrics.json, in their order
