"""Which model profile of the catalogue a job trains: no trace says, so a stated rule does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import TraceError
from sim.physics.catalogue import Catalogue
from sim.physics.gang_catalogue import GangCatalogue
from sim.traces.column_map import nearest
from sim.traces.trace import Trace

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
    that model (they differ in batch size) under either rule. Multi-GPU jobs draw from `gang_ok`
    profiles only; where rows are for one gang each (`GangCatalogue`), a job draws among its own.
    """

    rule: str
    names: Sequence[str] | None  # catalogue rows to draw from; None: all
    models: Mapping[str, str]  # the trace's words -> models of the catalogue

    def draw(self, trace: Trace, catalogue: Catalogue, rng: np.random.Generator) -> IntArray:
        """(J,) catalogue rows.

        Raises:
            TraceError: a name is not in the catalogue, or no profile may go to a gang.
        """
        rows = _allowed(self.names, catalogue)
        gang_rows = rows[catalogue.gang_ok[rows]]
        gangs = trace.num_gpus > 1
        if gangs.any() and len(gang_rows) == 0:
            raise TraceError(
                f"job {trace.job_id[int(np.argmax(gangs))]}: no profile may be given to multi-GPU "
                f"jobs; add one with gang_ok to workload.profiles or to the catalogue"
            )
        draw = rng.random(len(trace))
        profile = np.empty(len(trace), dtype=np.int64)
        for some, allowed in _by_gang(trace, rows, gang_rows, catalogue):
            profile[some] = self._by_rule(trace, catalogue, allowed, draw)[some]
            if trace.model is not None:
                self._by_model(trace, catalogue, allowed, draw, np.flatnonzero(some), profile)
        return profile

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
        models = np.array([_plain(catalogue.names[row].rpartition("/")[0]) for row in rows])
        for word in dict.fromkeys(trace.model[jobs]):
            own = rows[models == _plain(self.models.get(word, word))] if word else rows[:0]
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
                f"job {trace.job_id[int(np.argmax(some))]}: no profile is for {gang} GPUs; raise "
                f"profiles.most_gpus, or set workload.max_gang={catalogue.gang.max()}"
            )
        found.append((some, own))
    return found


def _plain(name: str) -> str:
    """Letters and digits of a model's name: "ResNet-50" and "resnet50" are one."""
    return "".join(sign for sign in name.lower() if sign.isalnum())


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
