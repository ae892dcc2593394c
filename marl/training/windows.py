"""Episodes for training: windows of the training part of a workload."""

from dataclasses import dataclass
from typing import Protocol

from sim.jobs import JobTable
from sim.traces.setting import Setting


class Workload(Protocol):
    """Anything that hands out windows."""

    def window(self, *, part: str, index: int, setting: Setting, seed: int) -> JobTable:
        """Window `index` of `part`."""


@dataclass(frozen=True)
class Windows:
    """Maps an episode's seed to a window of one part; never touches another part."""

    workload: Workload
    setting: Setting
    part: str
    seed: int

    def __call__(self, episode: int) -> JobTable:
        """The jobs of one episode."""
        return self.workload.window(
            part=self.part, index=episode, setting=self.setting, seed=self.seed
        )
