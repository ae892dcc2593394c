"""Jobs of TopDRL's authors: lengths in rows of time, stretched by what their placement costs."""

from collections.abc import Sequence

import numpy as np

from sim.errors import TraceError
from sim.jobs import JobTable
from sim.physics.york_network import YorkNetwork
from sim.topology.topology import Topology
from sim.traces.draws import texts
from sim.traces.job_rules import JobRules
from sim.traces.measured import Measured
from sim.traces.option_rules import check_count
from sim.traces.prepare import Preparation, fitted, prepare
from sim.traces.setting import Setting
from sim.traces.streams import Streams, whole_streams, window_streams
from sim.traces.trace import Trace
from sim.traces.window_kinds import check_drawn_windows
from sim.traces.york_mix import YorkMix


class YorkWorkload:
    """`num_jobs` jobs of a mix, drawn anew for each part, window and seed.

    The group counts a job's work as length x speed on its GPUs alone, and divides speed by the cost
    of its placement; work here is the time on the most compact placement, length x that cost.
    """

    def __init__(
        self,
        *,
        name: str,
        mix: YorkMix,
        network: YorkNetwork,
        topology: Topology,
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
        """Keep the options; each is explained in conf/workload/topdrl_york.yaml and _base.yaml.

        Raises:
            TraceError: if an option is out of range.
        """
        check_count("num_jobs", num_jobs)
        check_drawn_windows(windows_from)
        if num_jobs is None:
            raise TraceError(
                "workload.num_jobs is null; a generated workload needs a number of jobs"
            )
        if thin not in {None, 1}:
            raise TraceError(
                f"workload.thin is {thin}; jobs are drawn one by one, so it must be null"
            )
        self._name, self._mix, self._num_jobs = name, mix, num_jobs
        self._network, self._topology = network, topology
        self._options = Preparation(
            max_gang=max_gang, drop_too_large=drop_too_large, min_duration_s=min_duration_s,
            max_duration_s=max_duration_s, load=load, profiles=profiles, rules=rules,
        )  # fmt: skip
        self._measured = Measured(
            start_frac=measured_start_frac,
            end_frac=measured_end_frac,
            window_frac=window_measured_frac,
        )

    def whole(self, *, setting: Setting, seed: int) -> JobTable:
        """`num_jobs` jobs of a stream that no window uses.

        Raises:
            TraceError: if a job cannot run on the cluster.
        """
        return self._table(whole_streams(seed=seed), setting, self._measured.whole())

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """The jobs of one window of a part.

        Raises:
            TraceError: if the part is unknown or a job cannot run on the cluster.
        """
        draws = window_streams(seed=seed, part=part, index=index)
        return self._table(draws, setting, self._measured.window())

    def _table(self, draws: Streams, setting: Setting, measured: tuple[float, float]) -> JobTable:
        return prepare(
            fitted(self._trace(draws.jobs), self._options, setting),
            options=self._options,
            setting=setting,
            draws=draws,
            measured_frac=measured,
        )

    def _trace(self, rng: np.random.Generator) -> Trace:
        mix, count = self._mix, self._num_jobs
        rows, gangs = mix.lengths(count, rng), mix.gangs(count, rng)
        came = np.cumsum(rng.geometric(mix.arrival_prob, count))
        return Trace(
            name=self._name,
            job_id=texts([f"{self._name}-{row}" for row in range(count)]),
            submit_s=(came - came[0]) * mix.row_s,
            num_gpus=gangs.astype(np.int64),
            duration_s=rows * mix.row_s * self._network.least_cost(gangs, self._topology),
            user=texts([""] * count),
            vc=texts([""] * count),
        )
