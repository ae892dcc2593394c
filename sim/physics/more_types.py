"""A catalogue and its pair tables, made to cover every GPU type that a cluster names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from sim.arrays import FloatArray, IntArray
from sim.physics import a100
from sim.physics.a100 import A100
from sim.physics.catalogue import Catalogue
from sim.physics.gang_catalogue import GangCatalogue
from sim.physics.gpu_stand_ins import StandIn, StandIns
from sim.physics.gpu_table import GpuTable
from sim.physics.layered_catalogue import LayeredCatalogue
from sim.physics.pair_table import PairTable
from sim.topology.gpu_kind import GpuKind

FORMS = (GangCatalogue, LayeredCatalogue, Catalogue)  # what any catalogue is rebuilt as
GAVEL = ("measured", "shipped")  # sources of pairs that A100's own may stand beside


@dataclass(frozen=True)
class MoreTypes:
    """What a catalogue lacks of a cluster's GPU types; nothing in most runs."""

    base: Catalogue
    stand_ins: tuple[StandIn, ...]  # of the cluster, over the types of `base` and A100
    a100: StandIn | None  # the A100 over `base`, where its fits are used; None: they are not

    def catalogue(self) -> Catalogue:
        """The catalogue with a column for each further type."""
        names, columns = list(self.base.gpu_types), self.base.compute_s
        if self.a100 is not None:
            otherwise_s = columns[:, names.index(self.a100.like)] / self.a100.speed
            fitted = a100.a100_steps_s(self.base.names, otherwise_s)
            names, columns = [*names, A100], np.column_stack([columns, fitted])
        for each in self._added():
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
            slowdown.append(a100.a100_slowdown(self.base.names) if of_a100 else slowdown[at])
            tried.append(tried[at])
            feasible.append(fits)
        return PairTable(np.stack(slowdown), np.stack(feasible), table.source)

    def believed(self, table: PairTable, gpu_types: Sequence[str]) -> PairTable:
        """A belief over `base` as one over `gpu_types`: further types get their stand-in's rows."""
        if tuple(gpu_types) == self.base.gpu_types:
            return table
        rows = self._base_rows(gpu_types)
        return PairTable(table.slowdown[rows], table.feasible[rows], table.source)

    def notes(self, pairs: PairTable) -> tuple[str, ...]:
        """What was assumed, a line a type; `pairs` are the truth's."""
        told = [each.note(shared=pairs.source != "none") for each in self.stand_ins]
        if self.a100 is None:
            return tuple(told)
        own = [a100.a100_note(f"{self.a100.like}'s / {self.a100.speed:.3g} ({self.a100.why})")]
        if pairs.source in GAVEL:
            own.append(a100.a100_pairs_note())
        elif pairs.source != "none":
            own.append(f"{A100}: co-location of {self.a100.like}")
        return (*told, *own)

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
    base: Catalogue,
    gpu_types: Sequence[str],
    *,
    table: GpuTable,
    kinds: Mapping[str, GpuKind],
    physics_off: bool,
) -> MoreTypes:
    """Stand-ins for the types of a cluster that `base` lacks.

    Args:
        base: profiles.
        gpu_types: of the cluster, and the one of the trace's durations.
        table: what is assumed of types without profiles.
        kinds: what the cluster's description says of its types.
        physics_off: a type of which nothing is known runs as one that is known.

    Raises:
        PhysicsError: nothing is known of a type.
    """
    known = base.gpu_types
    own = (A100,) if A100 not in known and a100.covers(base) else ()
    finder = StandIns(known=(*known, *own), table=table, kinds=kinds, physics_off=physics_off)
    stand_ins = finder.of(gpu_types)
    used = own and A100 in (*gpu_types, *(each.like for each in stand_ins))
    if not used:
        return MoreTypes(base, stand_ins, None)
    (of_base,) = StandIns(known=known, table=table, kinds={}).of(own)
    tried_gib = {A100: of_base.tried_gib}
    told = (replace(s, tried_gib=tried_gib.get(s.like, s.tried_gib)) for s in stand_ins)
    return MoreTypes(base, tuple(told), of_base)
