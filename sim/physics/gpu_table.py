"""GPU types that no profile was measured on: how much faster each is, and catalogues made for them.

`conf/gpu_table/shipped.yaml` is the table, with the source of each figure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import PhysicsError, check_keys, check_numbers, nearest
from sim.physics.catalogue import Catalogue, GangCatalogue, LayeredCatalogue, plain
from sim.physics.mix_table import PairTable
from sim.physics.shipped_files import A100, a100_pairs_note, a100_slowdown, covers
from sim.topology.topology import GpuKind, Watts

MAKERS = ("nvidia", "amd", "instinct", "tesla", "geforce")  # words before a type's own name
KEYS = ("like", "speed", "memory_gib", "idle_watts", "busy_watts", "also", "source")


@dataclass(frozen=True)
class GpuFacts:
    """One type; without `like` it says no more than its memory."""

    like: str | None = None  # another type of the table, or one with profiles
    speed: float = 1.0  # work a second over that type's
    memory_gib: float | None = None  # of one GPU
    watts: Watts | None = None
    alias: bool = False  # merely another name of `like`


GpuTable = Mapping[str, GpuFacts]  # by plain name


def plain_name(gpu_type: str) -> str:
    """Letters and digits without the maker: `NVIDIA-A100-SXM4` and `a100_sxm4` are one type."""
    name = plain(gpu_type)
    for maker in MAKERS:
        name = name.removeprefix(maker) or name
    return name


def gpu_table(values: Mapping[str, Any]) -> GpuTable:
    """The table from the section `gpus`, entries of null left out; PhysicsError names the key."""
    if not isinstance(values, Mapping):
        raise PhysicsError(
            f"gpus is {values!r}; it is the table of GPU types. GPUs of the cluster: "
            "topology.servers x topology.gpus_per_server"
        )
    table: dict[str, GpuFacts] = {}
    for name, entry in values.items():
        if entry is None:
            continue
        _check_form(name, entry)
        facts = _facts(name, entry)
        table[plain_name(name)] = facts
        for each in entry.get("also") or ():
            other = GpuFacts(name, memory_gib=facts.memory_gib, watts=facts.watts, alias=True)
            table[plain_name(str(each))] = other
    return table


def other_names(table: GpuTable) -> dict[str, str]:
    """Plain names that are merely other names, and of which type."""
    return {k: plain_name(facts.like) for k, facts in table.items() if facts.alias and facts.like}


# What may follow in the name of a type: form, memory.
VARIANT = re.compile(r"(sxm\d?|pcie|nvl|hbm\de?|m\d\d|\d\d+gb)*")


def watts_of(table: GpuTable, gpu_types: Sequence[str]) -> dict[str, Watts]:
    """Of those types whose power the table knows, as it is or without form and memory.

    `h100_pcie` draws what `h100` does, though it is no other name of it: it is slower.
    """
    known = {name: facts.watts for name, facts in table.items() if facts.watts}
    found = {}
    for gpu_type in gpu_types:
        name = plain_name(gpu_type)
        fits = [k for k in known if name.startswith(k) and VARIANT.fullmatch(name[len(k) :])]
        if fits:
            found[gpu_type] = known[max(fits, key=len)]
    return found


def _check_form(name: str, entry: object) -> None:
    if not isinstance(entry, Mapping):
        raise PhysicsError(f"gpus.{name} is {entry!r}; give it {', '.join(KEYS[:3])}")
    check_keys(entry, KEYS, f"gpus.{name}", PhysicsError)
    if not isinstance(entry.get("also") or [], list):
        raise PhysicsError(f"gpus.{name}.also is {entry['also']!r}; it must be a list of names")
    like = entry.get("like")
    if like is not None and not isinstance(like, str | int):  # 4090 is a name, too
        raise PhysicsError(f"gpus.{name}.like is {like!r}; it must be the name of a GPU type")
    if like is None and "speed" in entry:
        raise PhysicsError(
            f"gpus.{name}.speed is {entry['speed']!r}, but gpus.{name}.like does not say of which "
            f"type's; add +gpus.{name}.like=TYPE"
        )


def _facts(name: str, entry: Mapping[str, Any]) -> GpuFacts:
    like, gib, speed = entry.get("like"), entry.get("memory_gib"), entry.get("speed", 1.0)
    check_numbers(f"gpus.{name}", "above 0", PhysicsError, speed=speed)
    check_numbers(f"gpus.{name}", "null, or above 0", PhysicsError, memory_gib=gib)
    idle, busy = entry.get("idle_watts"), entry.get("busy_watts")
    watts = {"idle_watts": idle, "busy_watts": busy}
    check_numbers(f"gpus.{name}", "null, or above 0", PhysicsError, **watts)
    if (idle is None) != (busy is None):
        raise PhysicsError(f"gpus.{name} has one of {', '.join(watts)}; give both or none")
    known = None if idle is None or busy is None else Watts(idle, busy)
    return GpuFacts(None if like is None else str(like), float(speed), gib, known)


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


@dataclass(frozen=True, kw_only=True)
class StandInFinder:
    """Finds stand-ins among the types that have profiles."""

    known: Sequence[str]  # types that have profiles
    table: GpuTable  # what is assumed of others
    kinds: Mapping[str, GpuKind]  # what the cluster's description says, by its name of the type
    # Nothing but the types' relative speeds counts, so that one of which nothing is known may be as
    # fast as the cluster's first of which something is.
    physics_off: bool = False

    @cached_property
    def _plain(self) -> dict[str, str]:
        return {plain_name(name): name for name in self.known}

    def of(self, gpu_types: Sequence[str]) -> tuple[StandIn, ...]:
        """The stand-ins of types that need one, as given; PhysicsError: nothing is known of one."""
        names = list(dict.fromkeys(gpu_types))
        found = {name: self._of(name) for name in names if not self._is_free(name)}
        like, speed = self.known[0], 1.0
        if found:
            first, stand_in = next(iter(found.items()))
            like, speed = (first, 1.0) if stand_in is None else (stand_in.like, stand_in.speed)
        free = StandIn("", like, speed, None, None, "physics is off")
        all_of_them = (found.get(name, replace(free, gpu_type=name)) for name in names)
        return tuple(each for each in all_of_them if each is not None)

    def _is_free(self, name: str) -> bool:
        """Whether nothing is known of a type, and nothing need be."""
        stated, short = self.kinds.get(name), plain_name(name)
        silent = stated is None or stated.facts == (None, None, None)
        return self.physics_off and silent and short not in self._plain | self.table.keys()

    def _of(self, name: str) -> StandIn | None:
        stated = self.kinds.get(name)
        own_gib = None if stated is None else stated.memory_gib
        if name in self.known:
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
        facts = self.table.get(plain_name(name))
        return None if facts is None else facts.memory_gib

    def _chain(self, name: str, stated: GpuKind | None) -> tuple[str, float, str]:
        """(type with profiles, speed over it, why): along `like` until one has profiles."""
        at, speed, why = name, 1.0, "another name"
        if stated is not None and (stated.like or stated.speed) is not None:
            at, speed, why = self._stated_like(name, stated), stated.speed or 1.0, "stated"
        passed: list[str] = []
        while plain_name(at) not in self._plain:
            facts = self.table.get(plain_name(at))
            if facts is None or facts.like is None or at in passed:
                raise self._unknown(name, at, stated)
            passed.append(at)
            at, speed = facts.like, speed * facts.speed
            why = why if facts.alias or why == "stated" else "assumed"
        return self._plain[plain_name(at)], speed, why

    def _stated_like(self, name: str, stated: GpuKind) -> str:
        """The type that a stated speed is over: the stated one, else that of the table."""
        facts = self.table.get(plain_name(name))
        like = stated.like or (None if facts is None else facts.like)
        if like is None:
            raise PhysicsError(
                f"{stated.where}: a speed is stated for GPU type {name!r}, but not over which "
                f"type's; give gpu_like, such as {self.known[-1]}"
            )
        return like

    def _unknown(self, name: str, at: str, stated: GpuKind | None) -> PhysicsError:
        where = "topology.gpu_types" if stated is None else stated.where
        short, first = plain_name(name), self.known[-1]
        missing = f"GPU type {name!r}" if at == name else f"GPU type {name!r} is like {at!r}, which"
        add = "" if short in self.table else "+"  # Hydra's, for what is new
        others = [each for each in (*self._plain, *self.table) if each != plain_name(at)]
        return PhysicsError(
            f"{where}: {missing} has neither profiles nor a stand-in"
            f"{nearest(plain_name(at), dict.fromkeys(others))}; say how fast it is with "
            f"{add}gpus.{short}.like={first} {add}gpus.{short}.speed=2 (in a description gpu_like "
            f"and gpu_speed), or switch physics off with interference=none network=none; known are "
            f"{', '.join(self.known)} and those of conf/gpu_table/shipped.yaml"
        )


FORMS = (GangCatalogue, LayeredCatalogue, Catalogue)  # what any catalogue is rebuilt as
GAVEL = ("measured", "shipped")  # sources of pairs that A100's own may stand beside


@dataclass(frozen=True)
class MoreTypes:
    """What a catalogue lacks of a cluster's GPU types; nothing in most runs."""

    base: Catalogue
    stand_ins: tuple[StandIn, ...]  # of the cluster, over the types of `base` and A100
    a100: StandIn | None  # the A100 over `base`, where its pairs are used; None: they are not

    def catalogue(self) -> Catalogue:
        """The catalogue with a column for each further type."""
        names, columns = list(self.base.gpu_types), self.base.compute_s
        for each in (*([] if self.a100 is None else [self.a100]), *self._added()):
            more = columns[:, names.index(each.like)] / each.speed
            names, columns = [*names, each.gpu_type], np.column_stack([columns, more])
        return self.base if len(names) == len(self.base.gpu_types) else self._with(names, columns)

    def pairs(self, table: PairTable) -> PairTable:
        """The truth's slow-downs, `table` (over `base`), with rows for the further types.

        Which pairs fit follows from memory and from the type of `base` on which they were tried.
        """
        if self.a100 is None and not self.stand_ins:
            return table
        names, slowdown = list(self.base.gpu_types), list(table.slowdown)
        tried, feasible = list(table.feasible), list(table.feasible)
        own = table.source in GAVEL
        for each in (*([] if self.a100 is None else [self.a100]), *self.stand_ins):
            at = names.index(each.like)
            fits = tried[at] if table.source == "none" else each.fits(tried[at])
            if each.gpu_type in names:
                feasible[at] = fits
                continue
            of_a100 = own and each is self.a100
            names.append(each.gpu_type)
            slowdown.append(a100_slowdown(self.base.names) if of_a100 else slowdown[at])
            tried.append(tried[at])
            feasible.append(fits)
        return PairTable(
            np.stack(slowdown), np.stack(feasible), table.source, guessed=table.guessed
        )

    def believed(self, table: PairTable, gpu_types: Sequence[str]) -> PairTable:
        """A belief over `base` as one over `gpu_types`: further types get their stand-in's rows."""
        if tuple(gpu_types) == self.base.gpu_types:
            return table
        rows = self._base_rows(gpu_types)
        return PairTable(table.slowdown[rows], table.feasible[rows], table.source)

    def notes(self, pairs: PairTable) -> tuple[str, ...]:
        """What was assumed, a line a type; `pairs` are the truth's."""
        lines = [each.note(shared=pairs.source != "none") for each in self.stand_ins]
        if self.a100 is None:
            return tuple(lines)
        own = [self.a100.note(shared=False)]
        if pairs.source in GAVEL:
            own.append(a100_pairs_note())
        elif pairs.source != "none":
            own.append(f"{A100}: co-location of {self.a100.like}")
        return (*lines, *own)

    def _added(self) -> list[StandIn]:
        """Those that are no type with profiles of its own."""
        return [each for each in self.stand_ins if each.gpu_type != each.like]

    def _base_rows(self, gpu_types: Sequence[str]) -> IntArray:
        like = {each.gpu_type: each.like for each in self._added()}
        if self.a100 is not None:
            like[A100] = self.a100.like
        rows = []
        for name in gpu_types:
            while name not in self.base.gpu_types:
                name = like[name]
            rows.append(self.base.gpu_types.index(name))
        return np.array(rows, dtype=np.int64)

    def _with(self, names: Sequence[str], compute_s: FloatArray) -> Catalogue:
        """The catalogue with other columns. What was assumed is not measured: it says `shipped`."""
        form = next(form for form in FORMS if isinstance(self.base, form))
        values = {field.name: getattr(self.base, field.name) for field in fields(form)}
        source = "shipped" if self.base.source == "measured" else self.base.source
        values |= {"gpu_types": tuple(names), "compute_s": compute_s, "source": source}
        return form(**values)


def more_types(
    base: Catalogue,  # profiles
    gpu_types: Sequence[str],  # of the cluster, and the one of the trace's durations
    *,
    table: GpuTable,  # what is assumed of types without profiles
    kinds: Mapping[str, GpuKind],  # what the cluster's description says of its types
    physics_off: bool,  # a type of which nothing is known runs as one that is known
) -> MoreTypes:
    """Stand-ins for types of a cluster that `base` lacks; PhysicsError: nothing is known of one."""
    known = base.gpu_types
    own = (A100,) if A100 not in known and covers(base) else ()
    finder = StandInFinder(known=(*known, *own), table=table, kinds=kinds, physics_off=physics_off)
    stand_ins = finder.of(gpu_types)
    used = own and A100 in (*gpu_types, *(each.like for each in stand_ins))
    if not used:
        return MoreTypes(base, stand_ins, None)
    (of_base,) = StandInFinder(known=known, table=table, kinds={}).of(own)
    tried_gib = {A100: of_base.tried_gib}
    completed = (replace(s, tried_gib=tried_gib.get(s.like, s.tried_gib)) for s in stand_ins)
    return MoreTypes(base, tuple(completed), of_base)
