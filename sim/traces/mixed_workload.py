"""Windows of several workloads in turn."""

from collections.abc import Mapping
from typing import Protocol

from sim.errors import TraceError
from sim.jobs import JobTable
from sim.traces.setting import Setting
from sim.traces.window_kinds import RANDOM


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
