"""Runs and comparisons from Python, and the pandas frames that they give back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.advice.answer import Advice
from gpuyard.api.asking import SAID, Asked, Cluster, Trace, composed, listed, scheduler_of
from gpuyard.evaluation.assumed import assumptions
from gpuyard.evaluation.experiment import (
    Experiment,
    experiment_of,
    labels_of,
    may_preempt,
    warn_without_users,
)
from gpuyard.evaluation.lineup import refuse_size_of_window
from gpuyard.launch.build import check_count
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.terminal import RunCount
from sim.files import ComparisonRow, Labels
from sim.jobs import JobTable
from sim.protocols import Scheduler
from sim.report.comparison_report import write_comparison
from sim.report.job_times import Interval
from sim.report.run_tables import job_frame
from sim.report.standings import standings
from sim.report.summary import headline, summarise
from sim.run import Run as RawRun
from sim.simulator import simulate as play
from sim.topology.topology import Topology

if TYPE_CHECKING:
    import pandas as pd


CONFIDENCE = 0.95
UNREAD = SAID | {  # and those of the program simulate that functions do not read
    "scheduler": "the argument scheduler or schedulers",
    "scheduler.": "words behind its name, like scheduler='fifo scheduler.skip_blocked=true'",
    "experiment": "its settings, or the program", "figures": "Run.gantt",
    "role": "a name for it: evaluate(schedulers={name: ...})",
    "jobs": "the program `gpuyard evaluate`", "confidence": "the program `gpuyard evaluate`",
    "rivals": "the program `gpuyard evaluate`",
    "part": "evaluate(part=...)", "window": "evaluate(windows=...)",
    "compiled": "sim.simulator.simulate(compiled=False)",
    "explain": "the program `gpuyard simulate`", "log_decisions": "the program `gpuyard simulate`",
    "hydra.run.dir": "what the call gives back, which needs no folder",
}  # fmt: skip
UNREAD_BY_ADVISE = SAID | {
    "aim": "the argument aim", "learn_minutes": "the argument learn_minutes",
    "page": "the program `gpuyard advise`", "hydra.run.dir": "the argument folder",
}  # fmt: skip


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
        return job_frame(self.raw)

    @cached_property
    def metrics(self) -> "pd.Series[Any]":
        """What `metrics.json` holds, by name."""
        import pandas as pd

        return pd.Series(dict(summarise(self.raw)), name=self.labels.scheduler, dtype=object)

    def gantt(self, path: str | Path) -> None:
        """Draw who held which GPU when, as a PNG; folders on the way are made.

        Raises:
            ConfigError: `path` is a folder, or has another ending.
        """
        from sim.report.figure_gpus import gantt

        if Path(path).is_dir():
            raise ConfigError(f"path is {str(path)!r}, a folder; name a file: 'gantt.png' in it")
        if Path(path).suffix.lower() != ".png":
            raise ConfigError(f"path is {str(path)!r}; it must end in .png, the only format drawn")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        gantt(self.raw, path=Path(path))

    def __repr__(self) -> str:
        """The headline metrics, as `gpuyard simulate` prints them."""
        title = f"{self.labels.scheduler} on {self.labels.workload}, {self.labels.topology}"
        shown = headline(dict(self.metrics))
        return "\n".join([title, *(f"  {key:20} {words}" for key, words in shown.items())])

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        import pandas as pd

        column = pd.Series(headline(dict(self.metrics)), name=self.labels.scheduler)
        table: str = column.to_frame().to_html()
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
        of 95 %, NaN with one window, or where all windows are the same run.
        """
        import pandas as pd

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
        write_comparison(
            Path(folder), self.rows, ours=self.rows[0].labels.scheduler,
            confidence=CONFIDENCE, assumed=self.assumed,
        )  # fmt: skip

    def __repr__(self) -> str:
        """The table, and what was taken for granted."""
        return "\n".join([self.table.to_string(index=False), *self._notes()])

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        notes = (f"<p>{escape(line)}</p>" for line in self._notes())
        return "\n".join([self.table.to_html(index=False), *notes])

    def _notes(self) -> list[str]:
        return [f"assumes {'; '.join(self.assumed)}"] if self.assumed else []


def _flat(intervals: Mapping[str, Interval]) -> dict[str, float]:
    """Columns of some intervals."""
    found: dict[str, float] = {}
    for name, interval in intervals.items():
        found |= {name: interval.centre, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return found


def simulate(
    trace: Trace = "venus_like",
    cluster: Cluster = "headline_leaf_spine",
    scheduler: Asked = "fifo",
    *,
    agents: int = 1,
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> Run:
    """Replay a whole trace with one scheduler.

    Args:
        trace: name of a workload of `conf/workload`, file of jobs, or a frame with `job_id`,
            `submit_s`, `num_gpus` and `duration_s`.
        cluster: name of a topology of `conf/topology`, yaml file, or `Topology`.
        scheduler: see `gpuyard.api.asking.scheduler_of`.
        agents: partitions of the cluster.
        seed: of generated jobs, predictions and schedulers.
        overrides: further words, as on the command line: `["interference=none"]`.

    Raises:
        GpuYardError: an argument, a row of the trace or a decision is wrong; the message names it.
    """
    words = [f"agents.count={agents}", *listed(overrides, refused=UNREAD)]
    with composed("simulate", trace=trace, cluster=cluster, overrides=words, seed=seed) as config:
        experiment = experiment_of(config)
        made = scheduler_of(scheduler, config, experiment.world.partitions, words)
        refuse_size_of_window(config["workload"], words)
        run = _played(experiment, made, experiment.whole())
        labels = labels_of(experiment, made, window=0, role=None)
        preempts = may_preempt(made)
        assumed = assumptions(config, experiment, labels.information, preempts=preempts)
        return Run(raw=run, labels=labels, assumed=assumed, config=config)


def evaluate(
    trace: Trace = "venus_like",
    cluster: Cluster = "headline_leaf_spine",
    schedulers: Sequence[Asked] | Mapping[str, Asked] = ("fifo", "sjf", "las"),
    *,
    agents: int = 1,
    windows: int | None = 5,
    part: str = "test",
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> Comparison:
    """Compare schedulers on the same windows of a trace; the first is what others are divided by.

    Args:
        trace: as for `simulate`.
        cluster: as for `simulate`.
        schedulers: each as for `simulate`, no two of one name; or by names of your own, as two
            policies need: {"mine": load_policy("a/policy"), "theirs": load_policy("b/policy")}.
        agents: partitions of the cluster.
        windows: of the part, each one run a scheduler; None: the whole trace, once.
        part: train, validation or test; a trace is split by time.
        seed: of generated jobs, predictions and schedulers.
        overrides: further words, as on the command line.

    Raises:
        GpuYardError: an argument, a row of the trace or a decision is wrong; the message names it.
    """
    check_count("windows", windows, null=True)
    words = [f"agents.count={agents}", *listed(overrides, refused=UNREAD)]
    with composed("simulate", trace=trace, cluster=cluster, overrides=words, seed=seed) as config:
        experiment = experiment_of(config)
        named, given = _asked(schedulers)
        made = [scheduler_of(each, config, experiment.world.partitions, words) for each in given]
        _check_names(names := named or [each.name for each in made])
        if windows is None:
            refuse_size_of_window(config["workload"], words)
        of, played = (None, 1) if windows is None else (part, experiment.played(part, windows))
        rows = []
        with RunCount("evaluating", played * len(made)) as count:
            for index in range(played):
                jobs = experiment.whole() if of is None else experiment.window(of, index)
                stretch = None if of is None else experiment.stretch(of, index)
                for name, each in zip(names, made, strict=True):
                    labels = labels_of(experiment, each, window=index, role=None)
                    labels = replace(labels, scheduler=name, stretch=stretch, part=of)
                    rows.append(ComparisonRow(labels, summarise(_played(experiment, each, jobs))))
                    count.tell(f"{name} window {index}")
        asked = {**config, "part": of, "windows": windows}
        assumed = assumptions(asked, experiment, preempts=any(map(may_preempt, made)))
        return Comparison(rows=tuple(rows), assumed=assumed)


def _played(experiment: Experiment, scheduler: Scheduler, jobs: JobTable) -> RawRun:
    warn_without_users(scheduler, jobs)
    return play(experiment.simulator(jobs), scheduler, experiment.seed, None)


def _asked(
    schedulers: Sequence[Asked] | Mapping[str, Asked],
) -> tuple[list[str] | None, list[Asked]]:
    """Names, where a caller gives them, and schedulers."""
    if isinstance(schedulers, str):
        raise ConfigError(f"schedulers is {schedulers!r}; give a list, like [{schedulers!r}]")
    if isinstance(schedulers, Mapping):
        return list(schedulers), list(schedulers.values())
    return None, list(schedulers)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise ConfigError("schedulers is empty; name one")
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise ConfigError(
            f"schedulers has {double} twice; leave one out, or give them names: "
            '{"a": ..., "b": ...}'
        )


def advise(
    trace: Trace = "venus_like",
    cluster: str | Path = "headline_leaf_spine",
    *,
    aim: str = "jct_mean_s",
    learn_minutes: float | None = None,
    folder: str | Path | None = None,
    agents: int = 1,
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> Advice:
    """Which scheduler suits a cluster: every one that runs, on the whole trace, ranked.

    Args:
        trace: as for `simulate`.
        cluster: name of a topology, or yaml file.
        aim: what is ranked by (docs/advise.md).
        learn_minutes: also learn a policy for this cluster on the trace's first part.
        folder: where what is learned is kept.
        agents: partitions of the cluster.
        seed: of predictions and schedulers.
        overrides: further words, as on the command line.

    Raises:
        GpuYardError: an argument or a row of the trace is wrong, or a job fits nowhere.
    """
    from gpuyard.advice.advise import advise as answer

    if isinstance(cluster, Topology):
        raise ConfigError("cluster is a Topology; processes read their own: give a yaml file")
    learns = "null" if learn_minutes is None else learn_minutes
    asked = listed(overrides, refused=UNREAD_BY_ADVISE)
    words = [f"aim={aim}", f"learn_minutes={learns}", f"agents.count={agents}", *asked]
    with composed("advise", trace=trace, cluster=cluster, overrides=words, seed=seed) as config:
        return answer(config, folder=None if folder is None else Path(folder))
