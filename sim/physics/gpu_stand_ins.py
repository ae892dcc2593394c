"""GPU types that a catalogue lacks: a type that it has stands in, so many times as fast.

A cluster may name any type. One that no profile was measured on takes the profiles of another with
their step times divided by a speed, and that type's co-location; how much memory it has decides
which pairs fit. What was assumed comes back as text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim.arrays import BoolArray
from sim.errors import PhysicsError
from sim.physics.gpu_table import GpuTable, plain_name
from sim.topology.gpu_kind import GpuKind
from sim.topology.nearest import nearest

A_PAIR = 2  # jobs


@dataclass(frozen=True)
class StandIn:
    """A GPU type of the cluster, and the type of the catalogue that stands in for it."""

    gpu_type: str  # as the cluster calls it
    like: str  # a type of the catalogue; the type itself where only its memory differs
    speed: float  # over `like`
    memory_gib: float | None  # of one GPU; None: not known
    tried_gib: float | None  # memory of the type on which the pairs of `like` were tried
    why: str  # of the speed: "assumed", "stated", ...

    def note(self, *, shared: bool = True) -> str:
        """What a run assumes, in one line; not `shared`: memory is no matter."""
        whose = f"{self.like}'s profile x {self.speed:.3g} ({self.why})"
        if self.like == self.gpu_type:
            whose = f"its own profile, with {self.memory_gib:g} GiB"
        memory = self._memory_note() if shared else ""
        return f"{self.gpu_type}: {whose}{'; ' if memory else ''}{memory}"

    def fits(self, of_like: BoolArray) -> BoolArray:
        """(P, P) pairs that fit, from those of `like`; every job ran alone where they were tried.

        Twice that memory holds any two jobs; less than it may hold no two.
        """
        if self.memory_gib is None or self.tried_gib is None:
            return of_like
        if self.memory_gib >= A_PAIR * self.tried_gib:
            return np.ones_like(of_like)
        return np.zeros_like(of_like) if self.memory_gib < self.tried_gib else of_like

    def _memory_note(self) -> str:
        if self.memory_gib is None or self.tried_gib is None:
            return ""
        if self.memory_gib >= A_PAIR * self.tried_gib:
            return f"in {self.memory_gib:g} GiB any two jobs fit"
        if self.memory_gib < self.tried_gib:
            return (
                f"no two jobs share its {self.memory_gib:g} GiB, less than the "
                f"{self.tried_gib:g} that profiles were tried on"
            )
        return ""


class StandIns:
    """Finds stand-ins among the types that have profiles."""

    def __init__(
        self,
        *,
        known: Sequence[str],
        table: GpuTable,
        kinds: Mapping[str, GpuKind],
        physics_off: bool = False,
    ) -> None:
        """Prepare.

        Args:
            known: types that have profiles.
            table: what is assumed of others.
            kinds: what the cluster's description says, by its name of the type.
            physics_off: nothing but the types' relative speeds counts, so that one of which nothing
                is known may be as fast as the cluster's first of which something is.
        """
        self._known, self._table, self._kinds = tuple(known), table, kinds
        self._physics_off = physics_off
        self._plain = {plain_name(name): name for name in self._known}

    def of(self, gpu_types: Sequence[str]) -> tuple[StandIn, ...]:
        """The stand-ins of all types that need one, in the given order.

        Raises:
            PhysicsError: nothing is known of a type; naming where the user wrote it, and the fix.
        """
        names = list(dict.fromkeys(gpu_types))
        found = {name: self._of(name) for name in names if not self._is_free(name)}
        like, speed = self._known[0], 1.0
        if found:
            first, stand_in = next(iter(found.items()))
            like, speed = (first, 1.0) if stand_in is None else (stand_in.like, stand_in.speed)
        free = StandIn("", like, speed, None, None, "physics is off")
        all_of_them = (found.get(name, replace(free, gpu_type=name)) for name in names)
        return tuple(each for each in all_of_them if each is not None)

    def _is_free(self, name: str) -> bool:
        """Whether nothing is known of a type, and nothing need be."""
        stated, plain = self._kinds.get(name), plain_name(name)
        silent = stated is None or stated.facts == (None, None, None)
        return self._physics_off and silent and plain not in self._plain | self._table.keys()

    def _of(self, name: str) -> StandIn | None:
        stated = self._kinds.get(name)
        own_gib = None if stated is None else stated.memory_gib
        if name in self._known:
            if stated is not None and (stated.like or stated.speed) is not None:
                raise PhysicsError(
                    f"{stated.where}: {name!r} has profiles of its own; leave out its like and "
                    "speed, or call the type otherwise"
                )
            if own_gib is None:
                return None
            return StandIn(name, name, 1.0, own_gib, self._memory_gib(name), "measured")
        like, speed, why = self._chain(name, stated)
        own_gib = self._memory_gib(name) if own_gib is None else own_gib
        return StandIn(name, like, speed, own_gib, self._memory_gib(like), why)

    def _memory_gib(self, name: str) -> float | None:
        facts = self._table.get(plain_name(name))
        return None if facts is None else facts.memory_gib

    def _chain(self, name: str, stated: GpuKind | None) -> tuple[str, float, str]:
        """(type with profiles, speed over it, why): along `like` until one has profiles."""
        at, speed, why = name, 1.0, "another name"
        if stated is not None and (stated.like or stated.speed) is not None:
            at, speed, why = self._stated_like(name, stated), stated.speed or 1.0, "stated"
        passed: list[str] = []
        while plain_name(at) not in self._plain:
            facts = self._table.get(plain_name(at))
            if facts is None or facts.like is None or at in passed:
                raise self._unknown(name, at, stated)
            passed.append(at)
            at, speed = facts.like, speed * facts.speed
            why = why if facts.alias or why == "stated" else "assumed"
        return self._plain[plain_name(at)], speed, why

    def _stated_like(self, name: str, stated: GpuKind) -> str:
        """The type that a stated speed is over: the stated one, else that of the table."""
        facts = self._table.get(plain_name(name))
        like = stated.like or (None if facts is None else facts.like)
        if like is None:
            raise PhysicsError(
                f"{stated.where}: a speed is stated for GPU type {name!r}, but not over which "
                f"type's; give gpu_like, such as {self._known[-1]}"
            )
        return like

    def _unknown(self, name: str, at: str, stated: GpuKind | None) -> PhysicsError:
        where = "topology.gpu_types" if stated is None else stated.where
        plain, first = plain_name(name), self._known[-1]
        missing = f"GPU type {name!r}" if at == name else f"GPU type {name!r} is like {at!r}, which"
        others = [each for each in (*self._plain, *self._table) if each != plain_name(at)]
        return PhysicsError(
            f"{where}: {missing} has neither profiles nor a stand-in"
            f"{nearest(plain_name(at), dict.fromkeys(others))}; say how fast it is with "
            f"+gpus.{plain}.like={first} +gpus.{plain}.speed=2 (in a description gpu_like and "
            f"gpu_speed), or switch physics off with interference=none network=none; known are "
            f"{', '.join(self._known)} and those of conf/gpu_table/shipped.yaml"
        )
