"""What a scheduler may order: starts, preemptions, forwards, and when to be asked again."""

from dataclasses import dataclass

from sim.arrays import IntArray


@dataclass(frozen=True)
class Start:
    """Start `job` (row of the job table) on `gpus`: distinct GPU ids, as many as its gang.

    An elastic job may get any number of GPUs between its least and its most. With a lease the job
    queues again after `lease_s`, its work kept; started at that instant on the same GPUs in the
    same order, it goes on at no cost.
    """

    job: int
    gpus: IntArray  # (num_gpus,)
    lease_s: float | None = None


@dataclass(frozen=True)
class Forward:
    """Hand the waiting `job` to `partition`."""

    job: int
    partition: int


@dataclass(frozen=True)
class Decision:
    """Orders for one instant, applied in this order: preempts, forwards, starts.

    Migration is a preemption and a start of the same job. `wake_s` is the absolute time at which
    the scheduler wants to be asked even if nothing happens; None means it does not. With `again`
    the scheduler is asked once more at this instant, after these orders took effect.
    """

    starts: tuple[Start, ...] = ()
    preempts: tuple[int, ...] = ()
    forwards: tuple[Forward, ...] = ()
    wake_s: float | None = None
    again: bool = False


WAIT = Decision()
