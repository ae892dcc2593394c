"""When a job may join others on their GPUs: never, if nothing is empty, if it pays, always."""

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.codes import ALIKE, IF_NOTHING_IS_EMPTY, NEVER
from sim.engine.occupancy import ANY_SPEED, SHARING_NEEDS, Occupancy
from sim.errors import InvalidDecision, check_numbers
from sim.protocols import Placer
from sim.view import ClusterView, Signal, Slots


def placed(placer: Placer, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
    """The placer's choice, None to wait; InvalidDecision: no list of GPUs, or one not offered."""
    given = placer.place(gang, slots, rng)
    if given is None:
        return None
    try:
        gpus = np.asarray(given, dtype=None if isinstance(given, np.ndarray | list) else object)
    except ValueError:  # lists in a list
        gpus = np.array([None])
    if gpus.ndim != 1 or gpus.dtype.kind not in "iu":
        raise InvalidDecision(
            f"placer {placer.name} gave {given!r:.60} for a gang of {gang}; it must be an array of "
            "whole numbers, the GPUs, or None"
        )
    inside = (gpus >= 0) & (gpus < len(slots.usable))
    if not slots.usable[gpus[inside]].all():  # others are no GPUs, of which the engine tells
        gpu = int(gpus[inside][np.argmin(slots.usable[gpus[inside]])])
        raise InvalidDecision(
            f"placer {placer.name} gave GPU {gpu}, which was not offered; take GPUs of slots.usable"
        )
    return gpus


def place_alone(
    view: ClusterView, occupancy: Occupancy, job: int, placer: Placer, rng: np.random.Generator,
    *, gang: int | None = None, on: BoolArray | None = None,
) -> IntArray | None:  # fmt: skip
    """The placer's choice among GPUs that the job has to itself, or the part it asks for.

    A job that asks for part of a GPU goes where least is left over (best fit), and opens an empty
    GPU only where no other has room; a placer with `chooses_parts` is offered all of these at once.
    None if the job should wait. `gang` GPUs, None: as it asks; `on` (S,) servers, None: on any.
    """
    gang = int(view.jobs.num_gpus[job]) if gang is None else gang
    chooses = getattr(placer, "chooses_parts", False)
    tight = None if chooses else occupancy.tightest(view, job, gang, on)
    gpus = None if tight is None else placed(placer, gang, tight, rng)
    if gpus is not None:
        return gpus
    slots = occupancy.exclusive(view, job)
    return placed(placer, gang, slots if on is None else slots.on(on), rng)


class NoSharing:
    """A GPU holds one job at a time, or jobs whose parts together are at most a GPU."""

    name = "off"
    needs = Signal.NONE
    engine_code = NEVER
    shares = False

    def place(
        self, view: ClusterView, occupancy: Occupancy, job: int, placer: Placer,
        rng: np.random.Generator,
    ) -> IntArray | None:  # fmt: skip
        """The placer's choice among GPUs, or parts of GPUs, that nobody holds."""
        return place_alone(view, occupancy, job, placer, rng)


class AlwaysShare:
    """The placer sees every GPU with room for one more tenant, and prefers as its rule says."""

    name = "always"
    needs = SHARING_NEEDS
    engine_code = ALIKE
    shares = True
    least_speed = ANY_SPEED

    def place(
        self, view: ClusterView, occupancy: Occupancy, job: int, placer: Placer,
        rng: np.random.Generator,
    ) -> IntArray | None:  # fmt: skip
        """The placer's choice among all GPUs that fit."""
        gang = int(view.jobs.num_gpus[job])
        return placed(placer, gang, occupancy.shared(view, job, self.least_speed), rng)


class FallbackSharing(AlwaysShare):
    """Empty GPUs first; where the placer finds none, shared ones are offered too."""

    name = "fallback"
    engine_code = IF_NOTHING_IS_EMPTY

    def place(
        self, view: ClusterView, occupancy: Occupancy, job: int, placer: Placer,
        rng: np.random.Generator,
    ) -> IntArray | None:  # fmt: skip
        """The placer's choice, exclusive before shared."""
        gpus = place_alone(view, occupancy, job, placer, rng)
        return super().place(view, occupancy, job, placer, rng) if gpus is None else gpus


class SelectiveSharing(FallbackSharing):
    """Fallback sharing, only on GPUs where the tenants together are predicted fast enough.

    Combined speed of a pair is 1 / slowdown(self) + 1 / slowdown(other): 1 is what taking turns
    would give. A GPU is offered if it is empty or this sum exceeds `threshold`.
    """

    engine_code = IF_NOTHING_IS_EMPTY  # not inherited: a class of one's own may share otherwise

    def __init__(self, *, threshold: float) -> None:
        """`threshold`: least predicted combined speed, 0 or more, typically 1.2 to 1.4."""
        check_numbers("sharing", "0 or more", threshold=threshold)
        self.threshold = self.least_speed = threshold
        self.name = f"selective{threshold:g}"
