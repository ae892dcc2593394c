"""From what a user names or hands in to a scheduler."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from hydra import compose

from gpuyard.api.asking import known
from gpuyard.experiment.experiment import composition_of
from gpuyard.launch.build import build, resolve
from gpuyard.launch.errors import ConfigError
from sim.arrays import FloatArray
from sim.engine.composed import PartitionedScheduler, QueueScheduler
from sim.protocols import Placer, Scheduler, Sharing
from sim.signals import Signal
from sim.view import JobColumns

Keys: TypeAlias = Callable[[JobColumns], FloatArray]
Asked: TypeAlias = "str | Scheduler | type[Scheduler] | Keys"
PARTS = ("placer", "sharing")  # of a composition, which a class may ask for
EVERYTHING_REAL = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE | Signal.SPEED


class ByKeys(QueueScheduler):
    """A queue in the order of a function: the least key starts first, ties by submission."""

    order_needs = EVERYTHING_REAL

    def __init__(self, function: Keys, *, placer: Placer, sharing: Sharing) -> None:
        """Who finds no place lets the ones behind it try."""
        super().__init__(placer=placer, sharing=sharing, skip_blocked=True)
        self.order_name = function.__name__
        self._function = function

    def keys(self, jobs: JobColumns) -> FloatArray:
        """(J,) what the function says of each job."""
        return self._function(jobs)


def words_of(asked: str) -> list[str]:
    """Overrides for a text like `sjf` or `sjf placer=best_fit sharing=selective`.

    Raises:
        ConfigError: there is no such scheduler.
    """
    name, *further = asked.split() or [""]
    return [f"scheduler={known('scheduler', name, 'scheduler')}", *further]


def scheduler_of(asked: Asked, config: Mapping[str, Any], partitions: int) -> Scheduler:
    """The scheduler that is named or handed in; call it where Hydra is composing.

    Args:
        asked: a name of `conf/scheduler`, with overrides of its composition behind it; a scheduler
            (`gpuyard.load_policy` gives one); a class of schedulers; or a function from the
            table of jobs to one key a job, the least to start first.
        config: of the experiment; its belief is what the scheduler is told.
        partitions: of the cluster; several queues get the forwarding rule of the composition.

    Raises:
        ConfigError: it is none of these.
    """
    words: Sequence[str] = words_of(asked) if isinstance(asked, str) else ()
    composition = {**resolve(compose("composition", list(words)))[0], "belief": config["belief"]}
    if isinstance(asked, str):
        return composition_of(composition, partitions)
    made = _made(asked, composition)
    if partitions > 1 and isinstance(made, QueueScheduler):
        return PartitionedScheduler(child=made, forwarding=build(composition, "forwarding"))
    return made


def _made(asked: object, composition: Mapping[str, Any]) -> Scheduler:
    if isinstance(asked, type):
        takes = inspect.signature(asked).parameters
        parts = {name: build(composition, name) for name in PARTS if name in takes}
        if "skip_blocked" in takes:
            parts["skip_blocked"] = True
        return cast(Scheduler, asked(**parts))
    if hasattr(asked, "decide"):
        return cast(Scheduler, asked)
    if inspect.isfunction(asked):
        return ByKeys(asked, **{name: build(composition, name) for name in PARTS})
    raise ConfigError(
        f"scheduler is {asked!r}; it must be a name, a scheduler, a class of schedulers or a "
        f"function from jobs to keys"
    )
