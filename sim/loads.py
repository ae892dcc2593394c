"""How busy each partition is: what routing rules look at."""

from dataclasses import dataclass

from sim.arrays import IntArray


@dataclass(frozen=True)
class Loads:
    """Per partition, jobs that arrived earlier in this instant included."""

    wanted: IntArray  # (M,) GPUs that its waiting and running jobs want
    capacity: IntArray  # (M,) GPUs it has

    def moved(self, gang: int, source: int, target: int) -> "Loads":
        """The loads once `gang` GPUs' worth of work has changed partition."""
        wanted = self.wanted.copy()
        wanted[source] -= gang
        wanted[target] += gang
        return Loads(wanted=wanted, capacity=self.capacity)
