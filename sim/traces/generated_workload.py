"""Jobs from the calibrated generator: another trace for each part, window and seed.

Windows of several workloads in turn.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sim.errors import TraceError
from sim.jobs import JobTable
from sim.traces.generator import generate
from sim.traces.job_traits import JobRules
from sim.traces.option_rules import check_count
from sim.traces.prepare import Preparation, fitted, prepare
from sim.traces.select import thinned_window
from sim.traces.setting import RANDOM, Measured, Setting, check_drawn_windows
from sim.traces.spec import WorkloadSpec
from sim.traces.streams import Streams, whole_streams, window_streams


class GeneratedWorkload:
    """`num_jobs` jobs a window, thinned out of `thin` times as many generated ones.

    Predictors know those left out once they have finished. Nothing ran before the first one.
    """

    def __init__(
        self,
        *,
        name: str,
        spec: WorkloadSpec,
        num_jobs: int | None,
        thin: int | None,
        windows_from: str,
        max_gang: int | None,
        drop_too_large: bool,
        min_duration_s: float | None,
        max_duration_s: float | None,
        load: float | None,
        profiles: Sequence[str] | None,
        rules: JobRules,
        measured_start_frac: float | None,
        measured_end_frac: float | None,
        window_measured_frac: Sequence[float],
    ) -> None:
        """Keep the options; each is explained in conf/workload/_generated.yaml and _base.yaml.

        Raises:
            TraceError: if an option is out of range.
        """
        check_drawn_windows(windows_from)
        check_count("num_jobs", num_jobs)
        check_count("thin", thin)
        if num_jobs is None:
            raise TraceError(
                "workload.num_jobs is null; a generated workload needs a number of jobs"
            )
        self._name, self._spec = name, spec
        self._num_jobs, self._thin = num_jobs, 1 if thin is None else thin
        self._options = Preparation(
            max_gang=max_gang,
            drop_too_large=drop_too_large,
            min_duration_s=min_duration_s,
            max_duration_s=max_duration_s,
            load=load,
            profiles=profiles,
            rules=rules,
        )
        self._measured = Measured(
            start_frac=measured_start_frac,
            end_frac=measured_end_frac,
            window_frac=window_measured_frac,
        )

    def whole(self, *, setting: Setting, seed: int) -> JobTable:
        """One trace of `num_jobs` jobs, of a stream that no window uses.

        With `drop_too_large` fewer jobs may be left.

        Raises:
            TraceError: if a job cannot run on the cluster.
        """
        return self._table(whole_streams(seed=seed), setting, self._measured.whole())

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """Window `index` of a part: streams of parts, indices and seeds are disjoint.

        Raises:
            TraceError: if the part is unknown or a job cannot run on the cluster.
        """
        draws = window_streams(seed=seed, part=part, index=index)
        return self._table(draws, setting, self._measured.window())

    def _table(self, draws: Streams, setting: Setting, measured: tuple[float, float]) -> JobTable:
        made = generate(self._spec, self._num_jobs * self._thin, draws.jobs, self._name)
        trace = fitted(made, self._options, setting)
        wanted = min(self._num_jobs, len(trace))
        return prepare(
            thinned_window(trace, wanted, self._thin, draws.jobs),
            options=self._options,
            setting=setting,
            draws=draws,
            measured_frac=measured,
            history=made,
        )


class Windowed(Protocol):
    """A workload as this one reads it."""

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """Window `index` of a part."""


class MixedWorkload:
    """Window i is window i of the (i modulo W)-th of W workloads; there is no whole."""

    def __init__(self, *, name: str, load: float | None, of: Mapping[str, Windowed]) -> None:
        """`of`: in turn; each scales its own load, `load` is what results call the mix by.

        Raises:
            TraceError: there is no workload, or one cuts its file into disjoint windows.
        """
        if not of:
            raise TraceError("workload.of is empty; name at least one workload")
        for key, each in of.items():
            how = getattr(each, "windows_from", RANDOM)
            if how != RANDOM:  # a mix takes every W-th window only, and would count past the last
                raise TraceError(
                    f"workload.of.{key}.windows_from is '{how}'; windows of a mix are random"
                )
        self._name, self._load, self._of = name, load, list(of.values())

    def whole(self, *, setting: Setting, seed: int) -> JobTable:
        """Always an error.

        Raises:
            TraceError: a mix has windows only.
        """
        del setting, seed
        raise TraceError(f"workload {self._name} has windows only; use one of its workloads")

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """The jobs of one window.

        Raises:
            TraceError: from the workload whose turn it is.
        """
        turn = self._of[index % len(self._of)]
        return turn.window(part=part, index=index, setting=setting, seed=seed)
