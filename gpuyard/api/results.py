"""What runs and comparisons give back: pandas frames, units in the names of their columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.metrics.summary import HEADLINE_KEYS, summarise
from sim.metrics.timeline import Interval
from sim.report.comparison import ComparisonRow, Labels
from sim.run import Run as RawRun

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Run:
    """One scheduler on one trace."""

    raw: RawRun
    labels: Labels
    assumed: tuple[str, ...]  # what was taken for granted
    config: Mapping[str, Any] = field(repr=False)

    @cached_property
    def jobs(self) -> "pd.DataFrame":
        """One row a job, in order of submission: what `jobs.parquet` holds (docs/metrics.md)."""
        from sim.report.run_tables import job_frame

        return job_frame(self.raw)

    @cached_property
    def metrics(self) -> "pd.Series[Any]":
        """What `metrics.json` holds, by name."""
        import pandas as pd

        return pd.Series(dict(summarise(self.raw)), name=self.labels.scheduler, dtype=object)

    def gantt(self, path: str | Path) -> None:
        """Draw who held which GPU when, as a PNG."""
        from sim.report.figure_gpus import gantt

        gantt(self.raw, path=Path(path))

    def __repr__(self) -> str:
        """The headline metrics, as `gpuyard simulate` prints them."""
        title = f"{self.labels.scheduler} on {self.labels.workload}, {self.labels.topology}"
        return f"{title}\n{self.metrics[list(HEADLINE_KEYS)].to_string()}"

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        table: str = self.metrics[list(HEADLINE_KEYS)].to_frame().to_html()
        return table


@dataclass(frozen=True)
class Comparison:
    """Several schedulers on the same windows."""

    rows: tuple[ComparisonRow, ...]
    assumed: tuple[str, ...]

    @cached_property
    def runs(self) -> "pd.DataFrame":
        """One row a run: labels, then all metrics."""
        import pandas as pd

        return pd.DataFrame([row.labels.as_dict() | dict(row.metrics) for row in self.rows])

    @cached_property
    def table(self) -> "pd.DataFrame":
        """One row a scheduler, the best mean JCT first.

        `<metric>_low` and `_high` bound the mean over windows, `ratio` is the first scheduler's
        mean JCT over this one's (geometric mean over paired windows; NaN for itself); t intervals
        of 95 %, NaN with one window.
        """
        import pandas as pd

        from sim.report.standings import standings

        ours = self.rows[0].labels.scheduler
        (setting,) = standings(self.rows, ours=ours, confidence=CONFIDENCE)
        return pd.DataFrame(
            [
                {
                    "scheduler": each.scheduler,
                    "information": each.information,
                    **_flat(each.intervals),
                    **({} if each.ratio is None else _flat({"ratio": each.ratio})),
                }
                for each in setting.standings
            ]
        )

    def save(self, folder: str | Path) -> None:
        """Write comparison.csv, comparison.md and jct_bars.png."""
        from sim.report.comparison_report import write_comparison

        write_comparison(
            Path(folder), self.rows, ours=self.rows[0].labels.scheduler,
            confidence=CONFIDENCE, assumed=self.assumed,
        )  # fmt: skip

    def __repr__(self) -> str:
        """The table."""
        return str(self.table.to_string(index=False))

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        return str(self.table.to_html(index=False))


def _flat(intervals: Mapping[str, Interval]) -> dict[str, float]:
    """Columns of some intervals."""
    found: dict[str, float] = {}
    for name, interval in intervals.items():
        found |= {
            name: interval.centre, f"{name}_low": interval.low, f"{name}_high": interval.high
        }  # fmt: skip
    return found
