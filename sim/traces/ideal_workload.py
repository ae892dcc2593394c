"""Jobs regenerated from published statistics, whose durations leave communication out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.arrays import FloatArray
from sim.errors import TraceError
from sim.jobs import JobTable
from sim.physics.no_interference import NoInterference
from sim.physics.physics import Physics
from sim.physics.reference import reference_steps_s
from sim.protocols import NetworkModel
from sim.topology.topology import Topology
from sim.traces.job_rules import JobRules
from sim.traces.measured import Measured
from sim.traces.option_rules import check_count
from sim.traces.prepare import Preparation, fitted, prepare
from sim.traces.published_mix import PublishedMix, draw_published
from sim.traces.select import take
from sim.traces.setting import Setting
from sim.traces.streams import Streams, whole_streams, window_streams
from sim.traces.trace import Trace
from sim.traces.window_kinds import check_drawn_windows


class IdealWorkload:
    """The jobs of a mix, another pairing for each part, window and seed.

    Published durations are those without a network ("ideal"). The work of a job is its time on the
    most compact placement, so each is lengthened by what its model communicates there: on a slower
    network the same jobs are more work.
    """

    def __init__(
        self,
        *,
        name: str,
        mix: PublishedMix,
        network: NetworkModel,
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
        """Keep the options; each is explained in conf/workload/dally_batch.yaml and _base.yaml.

        Raises:
            TraceError: if an option is out of range.
        """
        check_count("num_jobs", num_jobs)
        check_drawn_windows(windows_from)
        if num_jobs is not None and num_jobs > mix.num_jobs:
            raise TraceError(
                f"workload.num_jobs is {num_jobs}; the mix has {mix.num_jobs} jobs, null takes all"
            )
        if thin not in {None, 1}:
            raise TraceError(
                f"workload.thin is {thin}; a mix is taken whole or at random, so it must be null"
            )
        if load is not None and mix.mean_gap_s is None:
            raise TraceError("workload.load has no meaning where all jobs come at once; use null")
        self._name, self._mix = name, mix
        self._num_jobs = mix.num_jobs if num_jobs is None else num_jobs
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
        """All jobs, of a stream that no window uses.

        Raises:
            TraceError: if a job cannot run on the cluster.
        """
        return self._table(whole_streams(seed=seed), setting, self._measured.whole())

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """The jobs, drawn anew for each part, index and seed.

        Raises:
            TraceError: if the part is unknown or a job cannot run on the cluster.
        """
        draws = window_streams(seed=seed, part=part, index=index)
        return self._table(draws, setting, self._measured.window())

    def _table(self, draws: Streams, setting: Setting, measured: tuple[float, float]) -> JobTable:
        trace = fitted(draw_published(self._mix, draws.jobs, self._name), self._options, setting)
        jobs = prepare(
            self._some(trace, draws.jobs),
            options=self._options,
            setting=setting,
            draws=draws,
            measured_frac=measured,
        )
        stretch = self._stretch(jobs, setting)
        return replace(
            jobs,
            duration_s=jobs.duration_s * stretch,
            estimate_s=jobs.estimate_s * stretch,
        )

    def _some(self, trace: Trace, rng: np.random.Generator) -> Trace:
        """`num_jobs` of the jobs at random."""
        if self._num_jobs >= len(trace):
            return trace
        return take(trace, np.sort(rng.choice(len(trace), self._num_jobs, replace=False)))

    def _stretch(self, jobs: JobTable, setting: Setting) -> FloatArray:
        """(J,) step at the most compact placement over compute alone."""
        catalogue, topology = setting.catalogue, self._topology
        physics = Physics(
            catalogue=catalogue,
            pairs=NoInterference().pair_table(catalogue),
            network=self._network.tables(catalogue, topology),
            reference_gpu=topology.gpu_types[0],
            links=self._network.links(catalogue, topology),
        )
        step_s = reference_steps_s(jobs.num_gpus, topology, physics)[jobs.profile, jobs.num_gpus]
        compute_s = catalogue.compute_s[jobs.profile, physics.type_index(physics.reference_gpu)]
        return np.asarray(step_s / compute_s)
