"""From a resolved configuration to the objects of one experiment."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from gpuyard.evaluation.jobs import fit_somewhere, misfit_words, speed_of_asked
from gpuyard.evaluation.physics import ASKED, believed, physics_name, physics_of
from gpuyard.launch.build import RULES, build, check_choice, check_plain
from gpuyard.launch.errors import ConfigError
from marl.env.world import World
from sim.engine.composed import PartitionedScheduler, QueueScheduler
from sim.engine.given import check_scheduler
from sim.errors import TraceError, amount
from sim.files import Labels
from sim.jobs import JobTable
from sim.physics.gpu_table import gpu_table, other_names
from sim.protocols import DurationEstimator, Scheduler
from sim.report.league import INFORMATION
from sim.run import Rules
from sim.simulator import Simulator
from sim.topology.topology import Topology, contiguous_partitions, group_partitions
from sim.traces.setting import Owners, Setting
from sim.traces.trace import Stretches
from sim.traces.workload import TraceWorkload
from sim.view import Signal, information_of

log = logging.getLogger(__name__)
_warn, _inform = cache(log.warning), cache(log.info)  # once a process, which builds the same often

ROLES_BY_ORDER = {
    "marl": "ours",
    "load_balance": "published",
    "tetris": "published",
    "lif": "published",
    "fifo": "published",
    "las": "reference",  # preempts, which the others may not
}
DIVISIONS = {"contiguous": contiguous_partitions, "groups": group_partitions}


class OneQueueError(ConfigError):
    """A scheduler owns one queue for the whole cluster, and there are several partitions."""


@dataclass(frozen=True)
class Experiment:
    """A world, the workload it is played on, and the names that go into results."""

    world: World
    workload: Any  # TraceWorkload or GeneratedWorkload
    setting: Setting
    seed: int
    load: float | None
    workload_name: str
    belief_info: str
    gpu_notes: tuple[str, ...] = ()  # what was assumed of GPU types without profiles
    reference_gpu: str | None = None  # as the configuration has it

    def whole(self) -> JobTable:
        """The whole workload."""
        return self._placeable(self.workload.whole(setting=self.setting, seed=self.seed))

    def window(self, part: str | None, index: int) -> JobTable:
        """One window of a part; where that is None, the whole workload."""
        if part is None:
            return self.whole()
        return self._placeable(
            self.workload.window(part=part, index=index, setting=self.setting, seed=self.seed)
        )

    def stretches(self, part: str) -> Stretches | None:
        """How the windows of a part are cut out of a file; None where they are drawn freely."""
        if not isinstance(self.workload, TraceWorkload):
            return None
        return self.workload.stretches(part=part, setting=self.setting)

    def windows(self, part: str) -> int | None:
        """How many windows of a part there are; None: one for every number."""
        stretches = self.stretches(part)
        return None if stretches is None else stretches.windows

    def played(self, part: str, asked: int, key: str = "windows") -> int:
        """How many windows there are to play, at most `asked`, as `key` has it; fewer are told."""
        stretches = self.stretches(part)
        if stretches is None:
            return asked
        played = min(asked, stretches.windows)
        if played < asked:
            log.warning("%s is %d, but part '%s' has %d", key, asked, part, played)
        for note in (stretches.shortened(), stretches.left_over()):
            if note is not None:
                log.warning("%s", note)
        log.info("%s; %d are played", stretches.words(), played)
        return played

    def kept(self, part: str) -> tuple[int, int, int] | None:
        """Of a file, jobs of a window, how many in a row they are taken from, jobs of the part."""
        if not isinstance(self.workload, TraceWorkload):
            return None
        return self.workload.kept(part=part, setting=self.setting)

    def stretch(self, part: str | None, window: int) -> int | None:
        """The stretch of time that a window shares with others; None where it is its own."""
        stretches = None if part is None else self.stretches(part)
        return None if stretches is None else stretches.stretch(window)

    def _placeable(self, jobs: JobTable) -> JobTable:
        """The jobs; TraceError names a gang larger than every partition: gangs stay inside one."""
        largest = int(self.world.partition_gpus.max())
        rows = np.flatnonzero(jobs.num_gpus > largest)
        if len(rows):
            row = int(rows[0])
            raise TraceError(
                f"job {jobs.job_id[row]}: a gang of {amount(jobs.num_gpus[row], 'GPU')} fits none "
                f"of the {amount(self.world.partitions, 'partition')}, of at most "
                f"{amount(largest, 'GPU')} ({amount(len(rows), 'such job')}); set "
                f"workload.max_gang={largest}, or use fewer agents"
            )
        return self._with_speed(jobs)

    def _with_speed(self, jobs: JobTable) -> JobTable:
        """The jobs with the speed of the GPU types that their durations are of."""
        if self.reference_gpu not in (None, ASKED) or len(self.world.topology.gpu_types) == 1:
            return jobs
        speed = speed_of_asked(jobs, self.world)
        if self.reference_gpu == ASKED:
            return replace(jobs, speed=speed)
        if (speed != 1.0).any() and isinstance(self.workload, TraceWorkload):  # else of one type
            _warn(
                f"jobs ask for another GPU type than {self.world.physics.reference_gpu}, and their "
                "durations are taken as on that: reference_gpu=asked takes them as on the type "
                "that a job asks for, reference_gpu=TYPE as on one type"
            )
        return jobs

    def simulator(self, jobs: JobTable) -> Simulator:
        """A fresh run of jobs that all have room somewhere.

        Raises:
            TraceError: one asks for more than the empty servers of any partition have.
        """
        fits = fit_somewhere(jobs, self.world)
        if jobs.elastic is None and not fits.all():
            raise TraceError(
                f"{misfit_words(jobs, fits, self.world)}; 'workload.rules.ignore=[demands]' forgets"
                " what jobs ask for beside GPUs, `gpuyard advise leave_out=true` passes over such"
            )
        return self.world.simulator(jobs)


DRAWN, BY_VC = "drawn", "vc"


@lru_cache(maxsize=16)
def opened(setting: str) -> Experiment:
    """The experiment of a resolved configuration that is given as JSON, kept in this process."""
    return experiment_of(json.loads(setting))


def experiment_of(config: Mapping[str, Any]) -> Experiment:
    """Build topology, physics, belief and workload.

    Raises:
        GpuYardError: a value is illegal, or the parts do not fit together.
    """
    check_plain(config, RULES)
    check_choice(config, "agents.division", tuple(DIVISIONS))
    given = config["topology"]
    topology = given if isinstance(given, Topology) else build(config, "topology")
    physics, more = physics_of(config, topology)
    notes = more.notes(physics.pairs)
    for note in notes:
        _inform("%s", note)
    agents = config["agents"]
    partition_of_server = DIVISIONS[agents["division"]](topology, agents["count"])
    if "homes" in agents:  # older files have none
        check_choice(config, "agents.homes", (DRAWN, BY_VC))
    by_vc = agents.get("homes") == BY_VC
    setting = Setting(
        gpus=topology.num_gpus,
        partitions=agents["count"],
        skew=agents["skew"],
        owners=Owners.of(topology, partition_of_server) if by_vc else None,
        catalogue=physics.catalogue,
        estimator=_estimator(config),
        gpu_types=topology.gpu_types,
        also=other_names(gpu_table(config.get("gpus") or {})),
    )
    world = World(
        topology=topology,
        physics=physics,
        belief=replace(physics, pairs=believed(config, physics, more)),
        partition_of_server=partition_of_server,
        rules=_rules(config),
        outages=build(config, "outages").outages(topology, config["seed"]),
    )
    return Experiment(
        world=world,
        workload=build(config, "workload"),
        setting=setting,
        seed=config["seed"],
        load=config["workload"]["load"],
        workload_name=config["workload"]["name"],
        belief_info=config["belief"]["info"],
        gpu_notes=notes,
        reference_gpu=config["reference_gpu"],
    )


def _estimator(config: Mapping[str, Any]) -> DurationEstimator:
    estimator: DurationEstimator = build(config, "estimator")
    if getattr(estimator, "information", None) not in INFORMATION:
        raise ConfigError(
            f"estimator {type(estimator).__name__}: its information must be one of "
            f"{', '.join(INFORMATION)}: results are compared within these"
        )
    return estimator


def _rules(config: Mapping[str, Any]) -> Rules:
    keys = (
        "max_tenants", "gpu_oversubscription", "restart_s", "restart_s_per_gpu",
        "checkpoint_work_s", "checkpoint_s", "preempt_saves",
    )  # fmt: skip
    return Rules(
        **{key: config[key] for key in keys}, max_forwards=config["agents"]["max_forwards"]
    )


def composition_of(config: Mapping[str, Any], partitions: int) -> Scheduler:
    """The scheduler that `scheduler`, `placer`, `sharing`, `forwarding` and `belief` describe.

    Raises:
        OneQueueError: it knows one queue, and there are several partitions.
        GpuYardError: it is no scheduler.
    """
    scheduler: Scheduler = build(config, "scheduler")
    check_scheduler(scheduler)
    return in_partitions(scheduler, config, partitions)


def in_partitions(scheduler: Scheduler, config: Mapping[str, Any], partitions: int) -> Scheduler:
    """The scheduler for so many queues; an order has the rule `forwarding` of `config` with them.

    Raises:
        OneQueueError: it knows one queue, and there are several partitions.
    """
    if partitions > 1 and getattr(scheduler, "one_queue", False):
        raise OneQueueError(
            f"{scheduler.name} owns one queue for the whole cluster; set agents.count=1 "
            f"(it is {partitions}; from Python agents=1), in a line-up agents: 1"
        )
    if partitions > 1 and isinstance(scheduler, QueueScheduler):
        scheduler = PartitionedScheduler(child=scheduler, forwarding=build(config, "forwarding"))
    return scheduler


def may_preempt(scheduler: Scheduler) -> bool:
    """Whether its rule takes GPUs back, as far as it says."""
    return bool(getattr(getattr(scheduler, "child", scheduler), "preempts", False))


def shares_between_users(scheduler: Scheduler) -> bool:
    """Whether its rule is fairness between users."""
    return bool(getattr(getattr(scheduler, "child", scheduler), "between_users", False))


def warn_without_users(scheduler: Scheduler, jobs: JobTable) -> None:
    """Say so where a scheduler is fair between users and the jobs name none."""
    known = jobs.identity is not None and bool(
        np.any((jobs.identity.user >= 0) | (jobs.identity.vc >= 0))
    )
    if shares_between_users(scheduler) and not known:
        log.warning(
            "%s shares between users, and no job names its user or virtual cluster: each is a user "
            "of its own; name the column (workload.columns.user of a CSV)", scheduler.name,
        )  # fmt: skip


def labels_of(
    experiment: Experiment, scheduler: Scheduler, *, window: int, role: str | None
) -> Labels:
    """What `comparison.csv` says of one run."""
    needs = scheduler.needs
    information = information_of(needs)
    if information == "predicted":
        information = experiment.setting.estimator.information
    return Labels(
        scheduler=scheduler.name,
        topology=experiment.world.topology.name,
        workload=experiment.workload_name,
        load=experiment.load,
        agents=experiment.world.partitions,
        seed=experiment.seed,
        window=window,
        information=information,
        interference_info=experiment.belief_info if Signal.INTERFERENCE in needs else "none",
        physics=physics_name(experiment.world.physics),
        role=role_of(scheduler) if role is None else role,
    )


def role_of(scheduler: Scheduler) -> str:
    """The role of a scheduler that nobody gave one: by its name, then by what it knows."""
    order = scheduler.name.partition("+")[0]
    if order in ROLES_BY_ORDER:
        return ROLES_BY_ORDER[order]
    return "reference" if Signal.DURATION in scheduler.needs else "composite"
