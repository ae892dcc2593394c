"""The outcome of one simulated run."""

from dataclasses import dataclass

from sim.arrays import FloatArray, IntArray
from sim.event_log import EventLog
from sim.jobs import JobTable
from sim.topology.topology import Topology


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
    lost_s: FloatArray | None = None  # (J,) work done and lost again, in seconds at speed 1
    comm_s: FloatArray | None = None  # (J,) of run_s: exposed communication
    interference_s: FloatArray | None = None  # (J,) of run_s: lost to jobs on the same GPUs
    outcome: IntArray | None = None  # (J,) COMPLETED, FAILED, CANCELLED; -1: still in the system
    restarts: IntArray | None = None  # (J,) times it lost its GPUs before its end, why ever
    run_gpu_s: FloatArray | None = None  # (J,) run_s times the GPUs held; elastic gangs vary
    decides: str = ""  # `compiled`, or `python (why)`
    served_gpu_s: FloatArray | None = None  # (J,) of run_gpu_s: not spent in restarts
