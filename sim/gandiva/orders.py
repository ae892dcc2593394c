"""The orders of one decision, booked on a scratch copy of the cluster as they are made."""

from sim.arrays import IntArray
from sim.decision import Decision, Start
from sim.engine.occupancy import Occupancy
from sim.view import ClusterView


class Orders:
    """Starts and preemptions at one instant; a job that is stopped and started again moves."""

    def __init__(self, view: ClusterView) -> None:
        """Nothing ordered yet."""
        self.view = view
        self.occupancy = Occupancy(view)
        self.starts: dict[int, IntArray] = {}
        self.preempts: list[int] = []
        # Whether an empty GPU is all that a worker needs: every server is up, nobody asks for more.
        self.plain = view.jobs.demands is None and not view.server_closed.any()

    def __bool__(self) -> bool:
        """Whether anything is ordered."""
        return bool(self.starts or self.preempts)

    def start(self, job: int, gpus: IntArray) -> None:
        """Start `job` on `gpus`."""
        self.occupancy.take(job, gpus)
        self.starts[job] = gpus

    def stop(self, job: int) -> None:
        """Preempt the running `job`."""
        self.occupancy.release(job, self.view.gpus_of(job))
        self.preempts.append(job)

    def untouched(self) -> list[int]:
        """Running jobs that go on where they are, ascending."""
        stopped = set(self.preempts)
        return [job for job in self.view.running.tolist() if job not in stopped]

    def decision(self, wake_s: float | None) -> Decision:
        """What to hand to the simulator."""
        starts = tuple(Start(job, gpus) for job, gpus in self.starts.items())
        return Decision(starts=starts, preempts=tuple(self.preempts), wake_s=wake_s)
