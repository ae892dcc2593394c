"""Rules for what a trace leaves open: models, GPU types, and which of its columns to use."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TypedDict, TypeVar

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray, TextArray
from sim.errors import TraceError, amount, nearest
from sim.jobs import (
    ANY_TYPE,
    COMPLETED,
    NEVER_S,
    WHOLE_GPU_MILLI,
    Attempts,
    Demands,
    Elastic,
    Fates,
    Identity,
    Precedence,
    Urgency,
    codes_of,
)
from sim.physics.catalogue import Catalogue, GangCatalogue, plain
from sim.physics.gpu_table import plain_name
from sim.traces.column_reader import BLANKS
from sim.traces.setting import check_choice
from sim.traces.trace import Trace

log = logging.getLogger(__name__)
_warn = cache(log.warning)  # once a process: windows of one trace say the same

C = TypeVar("C", FloatArray, IntArray)
ERROR, ANY = "error", "any"
UNKNOWN = (ERROR, ANY)  # what to do with a job none of whose GPU types the cluster has


@dataclass(frozen=True)
class TypeWords:
    """Turns allowed types such as "P100|T4" into bit masks."""

    known: tuple[str, ...]  # GPU types of the topology; bit t is known[t]
    names: Mapping[str, str]  # the trace's name -> the topology's, where it has none of that name
    unknown: str  # ERROR, or ANY: such a job may run anywhere
    # Plain name of a type -> that of the type of which it is another name.
    also: Mapping[str, str] = field(default_factory=dict)

    def masks(self, job_id: TextArray, gpu_types: TextArray) -> IntArray:
        """(J,) bit masks; types that the cluster lacks are left out of a job's list.

        Raises:
            TraceError: naming the first job whose types the cluster lacks altogether.
        """
        of_text = {text: self._mask(str(text)) for text in dict.fromkeys(gpu_types)}
        found = [of_text[text] for text in gpu_types]
        missing = np.array([mask is None for mask in found], dtype=np.bool_)
        if missing.any():
            row = int(np.argmax(missing))
            if self.unknown == ERROR:
                raise TraceError(self._fault(str(job_id[row]), str(gpu_types[row])))
            log.warning(
                "%d jobs ask for GPU types that the cluster lacks (the first: job %s, %s) and may "
                "run on any; %s says which type a name is (here: %s)", int(missing.sum()),
                job_id[row], gpu_types[row], _naming(str(gpu_types[row])), ", ".join(self.known),
            )  # fmt: skip
        return np.array([ANY_TYPE if mask is None else mask for mask in found], dtype=np.int64)

    def _mask(self, text: str) -> int | None:
        """Bits of the types in `text`; None if the cluster has none of them."""
        words = _type_words(text)
        if not words:
            return ANY_TYPE
        mask = 0
        for word in words:
            mask |= self.bits(word)
        return mask or None

    def bits(self, word: str) -> int:
        """The type of that very name, else in other spelling, or that `names` gives, or `also`."""
        exact = [t for t, known in enumerate(self.known) if known.lower() == word.lower()]
        given = self.names.get(word)
        found = exact or self._alike(word) or self._alike(given) or self._alike(word, self.also)
        return sum(1 << t for t in found)

    def _alike(self, name: str | None, also: Mapping[str, str] = MappingProxyType({})) -> list[int]:
        plain = [plain_name(each) for each in (name or "", *self.known)]
        wanted, *known = (also.get(each, each) for each in plain)
        return [t for t, each in enumerate(known) if name and each == wanted]

    def _fault(self, job: str, text: str) -> str:
        known = ", ".join(self.known) or "none named"
        return (
            f"job {job}: gpu_types is {text!r}; the cluster has {known}; say which type each name "
            f"is with {_naming(text)}, or let such jobs run anywhere with "
            "workload.rules.unknown_gpu_types=any"
        )


def _naming(text: str) -> str:
    """The word that says what the first type of a list is."""
    return f"'+workload.rules.gpu_type_names={{{_type_words(text)[0]}: TYPE}}'"


def _type_words(text: str) -> list[str]:
    """The names in a list of types; none where it is blank, or says any."""
    words = [word.strip() for word in re.split(r"[|,]", text)]
    return [word for word in words if word.lower() not in (*BLANKS, ANY)]


class Traits(TypedDict):
    """Fields of a JobTable; None where the trace has none of a trait's columns."""

    demands: Demands | None
    elastic: Elastic | None
    identity: Identity | None
    urgency: Urgency | None
    fates: Fates | None
    attempts: Attempts | None
    precedence: Precedence | None


TRAITS = tuple(Traits.__annotations__)


def traits_of(
    trace: Trace, submit_s: FloatArray, words: TypeWords, ignore: Sequence[str]
) -> Traits:
    """What the trace says of its jobs beyond gang and work, but for the traits named in `ignore`.

    `submit_s` (J,) is in time of the run; deadlines count from there.

    Raises:
        TraceError: a job asks for a GPU type that the cluster lacks.
    """
    return Traits(
        demands=None if "demands" in ignore else _demands(trace, words),
        elastic=None if "elastic" in ignore else _elastic(trace),
        identity=None if "identity" in ignore else _identity(trace),
        urgency=None if "urgency" in ignore else _urgency(trace, submit_s),
        fates=None if "fates" in ignore else _fates(trace),
        attempts=None if "attempts" in ignore else trace.attempts,
        precedence=None if "precedence" in ignore else trace.precedence,
    )


def _demands(trace: Trace, words: TypeWords) -> Demands | None:
    given = (trace.gpu_milli, trace.cpu_milli, trace.memory_mib, trace.gpu_types)
    if all(column is None for column in given):
        return None
    types = trace.gpu_types
    mask = None if types is None else words.masks(trace.job_id, types)
    return Demands(
        gpu_milli=_filled(trace, trace.gpu_milli, WHOLE_GPU_MILLI),
        cpu_milli=_filled(trace, trace.cpu_milli, 0),
        memory_mib=_filled(trace, trace.memory_mib, 0),
        type_mask=_filled(trace, mask, ANY_TYPE),
    )


def _filled(trace: Trace, column: C | None, value: float) -> C:
    """(J,) the column, or the value throughout where the file lacks it."""
    return np.full(len(trace), value) if column is None else column


def _elastic(trace: Trace) -> Elastic | None:
    least, most, gang = trace.least_gpus, trace.most_gpus, trace.num_gpus
    if least is None and most is None:
        return None
    return Elastic(gang if least is None else least, gang if most is None else most)


def _identity(trace: Trace) -> Identity | None:
    blank: TextArray = np.full(len(trace), "", dtype=np.object_)
    group = blank if trace.group is None else trace.group
    if not any(any(column) for column in (trace.user, group, trace.vc)):
        return None
    return Identity(codes_of(trace.user), codes_of(group), codes_of(trace.vc))


def _urgency(trace: Trace, submit_s: FloatArray) -> Urgency | None:
    if trace.priority is None and trace.deadline_s is None:
        return None
    due_s = None if trace.deadline_s is None else submit_s + trace.deadline_s
    return Urgency(_filled(trace, trace.priority, 0), _filled(trace, due_s, NEVER_S))


def _fates(trace: Trace) -> Fates | None:
    if trace.outcome is None and trace.withdraw_s is None:
        return None
    outcome = _filled(trace, trace.outcome, COMPLETED)
    return Fates(outcome, _filled(trace, trace.withdraw_s, NEVER_S))


SHOWN = 3  # names in one message
UNIFORM, BY_SIZE = "uniform", "by_size"
RULES = (UNIFORM, BY_SIZE)
# Job classes of Pollux (Qiao et al., OSDI 2021) and Sia (Jayaram Subramanya et al., SOSP 2023):
# small, medium, large and extra large, in GPU-hours of the whole job.
SIZE_EDGES_GPU_S = (3600.0, 36_000.0, 360_000.0)


@dataclass(frozen=True)
class ProfileRule:
    """One draw a job, whatever the rule, so that rules can be compared on the same draws.

    `uniform`: any allowed profile, as Gavel does. `by_size`: the allowed profiles in order of
    their time an iteration (geometric mean over GPU types) are cut into as many equal classes as
    there are size classes, and a job draws from the class of its GPU time: large jobs train heavy
    models. A job whose model the trace names, and the catalogue has, draws among the profiles of
    that model (they differ in batch size) under either rule; where it names a whole profile, like
    `ResNet-50/32`, it gets that one. Multi-GPU jobs draw from `gang_ok`
    profiles only; where rows are for one gang each (`GangCatalogue`), a job draws among its own.
    """

    rule: str
    names: Sequence[str] | None  # catalogue rows to draw from; None: all
    models: Mapping[str, str]  # the trace's words -> models of the catalogue

    def draw(self, trace: Trace, catalogue: Catalogue, rng: np.random.Generator) -> IntArray:
        """(J,) catalogue rows; TraceError: a name is unknown, or no profile may go to a gang."""
        rows = _allowed(self.names, catalogue)
        gang_rows = rows[catalogue.gang_ok[rows]]
        gangs = trace.num_gpus > 1
        if gangs.any() and len(gang_rows) == 0:
            raise TraceError(
                f"job {trace.job_id[int(np.argmax(gangs))]}: no profile may be given to multi-GPU "
                f"jobs; add one with gang_ok to workload.profiles or to the catalogue"
            )
        if trace.model is not None:
            self._tell_unknown(trace.model, catalogue)
        draw = rng.random(len(trace))
        profile = np.empty(len(trace), dtype=np.int64)
        for some, allowed in _by_gang(trace, rows, gang_rows, catalogue):
            profile[some] = self._by_rule(trace, catalogue, allowed, draw)[some]
            if trace.model is not None:
                self._by_model(trace, catalogue, allowed, draw, np.flatnonzero(some), profile)
        return profile

    def _tell_unknown(self, named: TextArray, catalogue: Catalogue) -> None:
        """Log how many jobs name a model that the catalogue lacks."""
        models = dict.fromkeys(name.rpartition("/")[0] for name in catalogue.names)
        known = {plain(name) for name in (*models, *catalogue.names)}
        words = [word for word in dict.fromkeys(named) if word]
        unknown = [word for word in words if plain(self.models.get(word, word)) not in known]
        if unknown:
            first, like = unknown[0], self.models.get(unknown[0])
            hint = "" if like is None else f" ({like!r} is none{nearest(like, models)})"
            _warn(
                f"{np.isin(named, unknown).sum()} of {amount(len(named), 'job')} name models that "
                f"profiles lack ({', '.join(unknown[:SHOWN])}); theirs are drawn. "
                f"+workload.rules.models.{first}=MODEL says which one it is like{hint}: "
                f"{', '.join(models)}"
            )

    def _by_rule(
        self, trace: Trace, catalogue: Catalogue, rows: IntArray, draw: FloatArray
    ) -> IntArray:
        """(J,) rows by the rule, whatever the jobs' models; all 0 where `rows` is empty."""
        if len(rows) == 0:
            return np.zeros(len(trace), dtype=np.int64)
        if self.rule == UNIFORM:
            return rows[(draw * len(rows)).astype(np.int64)]
        weight = np.log(catalogue.compute_s[rows]).mean(axis=1)
        ranked = rows[np.argsort(weight, kind="stable")]
        size = np.searchsorted(SIZE_EDGES_GPU_S, trace.num_gpus * trace.duration_s, side="right")
        classes = len(SIZE_EDGES_GPU_S) + 1
        begin: IntArray = size * len(ranked) // classes
        width = np.maximum((size + 1) * len(ranked) // classes - begin, 1)
        chosen: IntArray = ranked[begin + (draw * width).astype(np.int64)]
        return chosen

    def _by_model(
        self, trace: Trace, catalogue: Catalogue, rows: IntArray, draw: FloatArray,
        jobs: IntArray, profile: IntArray,
    ) -> None:  # fmt: skip
        """Overwrite the profiles of those `jobs` whose model is among `rows`."""
        assert trace.model is not None
        names = [catalogue.names[row] for row in rows]
        whole = np.array([plain(name) for name in names])
        models = np.array([plain(name.rpartition("/")[0]) for name in names])
        for word in filter(None, dict.fromkeys(trace.model[jobs])):
            like = plain(self.models.get(word, word))
            own = rows[whole == like] if np.any(whole == like) else rows[models == like]
            if len(own):
                some = jobs[trace.model[jobs] == word]
                profile[some] = own[(draw[some] * len(own)).astype(np.int64)]


def _by_gang(
    trace: Trace, rows: IntArray, gang_rows: IntArray, catalogue: Catalogue
) -> list[tuple[BoolArray, IntArray]]:
    """Which jobs (J,) draw from which rows."""
    gangs = trace.num_gpus > 1
    if not isinstance(catalogue, GangCatalogue):
        return [(~gangs, rows), (gangs, gang_rows)]
    found = []
    for gang in np.unique(trace.num_gpus):
        some, own = trace.num_gpus == gang, rows[catalogue.gang[rows] == gang]
        if len(own) == 0:
            raise TraceError(
                f"job {trace.job_id[int(np.argmax(some))]}: no profile is for "
                f"{amount(gang, 'GPU')}; raise profiles.most_gpus, or set "
                f"workload.max_gang={catalogue.gang.max()}"
            )
        found.append((some, own))
    return found


def _allowed(names: Sequence[str] | None, catalogue: Catalogue) -> IntArray:
    known = catalogue.names
    if names is None:
        return np.arange(len(known))
    for name in names:
        if name not in known:
            raise TraceError(
                f"workload.profiles names '{name}', which the catalogue lacks"
                f"{nearest(name, known)}; profiles: {', '.join(known)}"
            )
    if len(names) == 0:
        raise TraceError("workload.profiles is empty; name a profile, or set it to null for all")
    return np.array([known.index(name) for name in names], dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class JobRules:
    """Options of `rules` in conf/workload/_trace.yaml."""

    profile_rule: str  # one of sim.traces.job_traits.RULES
    models: Mapping[str, str]  # the trace's name of a model -> the catalogue's
    ignore: Sequence[str]  # traits to leave out, of sim.traces.job_traits.TRAITS
    gpu_type_names: Mapping[str, str]  # the trace's name of a GPU type -> the topology's
    unknown_gpu_types: str  # one of sim.traces.job_traits.UNKNOWN

    def __post_init__(self) -> None:
        """Raise a TraceError, naming key, value and what is known, for another word."""
        check_choice("rules.profile_rule", self.profile_rule, RULES)
        check_choice("rules.unknown_gpu_types", self.unknown_gpu_types, UNKNOWN)
        if isinstance(self.ignore, str | int | float):
            raise TraceError(f"rules.ignore is {self.ignore!r}; give a list, like [demands]")
        for name in ("models", "ignore", "gpu_type_names"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})
        for name, target in self.models.items():
            if not isinstance(target, str):
                raise TraceError(f"rules.models.{name} is {target!r}; give one name of a model")
        for trait in self.ignore:
            check_choice("rules.ignore", trait, TRAITS)
