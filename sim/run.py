"""One simulated run: the rules it is played by, its event log, its outcome.

The log is what happened, in order: the one record that metrics, figures and tests read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import overload

from sim.arrays import FloatArray, IntArray
from sim.errors import SimulationError, check_numbers
from sim.jobs import JobTable
from sim.topology.topology import Topology, Watts


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Sharing, restarts, checkpoints, forwarding; what each means: docs/reference/semantics.md."""

    max_tenants: int  # jobs a GPU may hold
    gpu_oversubscription: float | None  # of a GPU's thousandths; None: as many as tenants
    restart_s: float  # GPUs are held this long without progress when a job starts again
    restart_s_per_gpu: float  # and this much longer for each GPU that it gets
    checkpoint_work_s: float | None  # work between periodic checkpoints; None: no periodic ones
    checkpoint_s: float  # a periodic checkpoint takes this long
    preempt_saves: bool  # a preempted job writes a checkpoint as it goes
    max_forwards: int

    def __post_init__(self) -> None:
        """Raise a SimulationError, naming key, value and rule, where one is out of range."""
        for rule, keys in (
            ("from 1 to 1000", ("max_tenants",)),
            ("null, or from 1 to 1000", ("gpu_oversubscription",)),
            ("0 or more", ("restart_s", "restart_s_per_gpu", "checkpoint_s", "max_forwards")),
            ("null, or above 0", ("checkpoint_work_s",)),
        ):
            check_numbers("", rule, SimulationError, **{key: getattr(self, key) for key in keys})
        if not isinstance(self.preempt_saves, bool):
            raise SimulationError(f"preempt_saves is {self.preempt_saves!r}; it is true or false")


class Kind(IntEnum):
    """Kinds of events; docs/reference/semantics.md says in which order they come at one instant."""

    FINISH = 0
    ARRIVAL = 1
    PREEMPT = 2
    FORWARD = 3
    START = 4
    FAIL = 5  # an attempt failed: the job queues again
    EVICT = 6  # its server went away: the job queues again
    EXPIRE = 7  # its lease ended: the job queues again
    WITHDRAW = 8  # its user gave up, or a parent ended badly: the job leaves for good
    SERVER_DOWN = 9  # job is -1; gpus are the server's
    SERVER_UP = 10
    READY = 11  # the last parent finished after the job had arrived: it queues


class GpuLists(Sequence[IntArray]):
    """One list of GPUs an event, stored one after the other."""

    def __init__(self, first: IntArray, ids: IntArray) -> None:
        """List i is ids[first[i]:first[i + 1]]."""
        self.first = first  # (E + 1,)
        self.ids = ids

    def __len__(self) -> int:
        """Number of lists E."""
        return len(self.first) - 1

    @overload
    def __getitem__(self, at: int) -> IntArray: ...

    @overload
    def __getitem__(self, at: slice) -> "list[IntArray]": ...

    def __getitem__(self, at: int | slice) -> "IntArray | list[IntArray]":
        """GPUs of one event, or of several."""
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        at %= len(self)
        return self.ids[self.first[at] : self.first[at + 1]]


@dataclass(frozen=True)
class EventLog:
    """E events in order of occurrence."""

    time_s: FloatArray  # (E,)
    kind: IntArray  # (E,) Kind
    job: IntArray  # (E,) row of the job table; -1 where the event is a server's
    partition: IntArray  # (E,) partition that holds the job after the event; a server's own
    gpus: Sequence[IntArray]  # (E,) GPUs taken (START), given back (when a job that held some
    # stops), changed (SERVER_*), or none


@dataclass(frozen=True)
class Run:
    """Per-job outcomes (rows of `jobs`), the event log, and what deciding cost."""

    scheduler: str
    jobs: JobTable
    topology: Topology
    partition_of_server: IntArray  # (S,)
    start_s: FloatArray  # (J,) first start; NaN if never
    finish_s: FloatArray  # (J,) NaN if never
    run_s: FloatArray  # (J,) time on GPUs, all attempts (GPUs held = run_s * num_gpus)
    preemptions: IntArray  # (J,)
    forwards: IntArray  # (J,)
    partition: IntArray  # (J,) partition in which the job ran last
    log: EventLog
    decisions: int  # times the scheduler was asked
    decision_s: float  # wall seconds inside decide, all together
    loop_wall_s: float  # wall seconds in the event loop, decisions included
    # None: the run did not measure it.
    lost_s: FloatArray | None = None  # (J,) work done and lost again, in duration's seconds
    comm_s: FloatArray | None = None  # (J,) of run_s: exposed communication
    interference_s: FloatArray | None = None  # (J,) of run_s: lost to jobs on the same GPUs
    outcome: IntArray | None = None  # (J,) COMPLETED, FAILED, CANCELLED; -1: still in the system
    restarts: IntArray | None = None  # (J,) times it lost its GPUs before its end, why ever
    run_gpu_s: FloatArray | None = None  # (J,) run_s times the GPUs held; elastic gangs vary
    decides: str = ""  # `compiled`, maybe with the method that is asked, or `python (why)`
    served_gpu_s: FloatArray | None = None  # (J,) of run_gpu_s: not spent in restarts
    models: tuple[str, ...] = ()  # of the jobs' profiles, "model/batch"; none: not known
    watts: Mapping[str, Watts] = field(default_factory=dict)  # of GPU types where it is known
