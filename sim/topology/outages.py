"""When servers go away and come back: absences as changes in order of time.

They come from a CSV file of what happened or is planned, from seeded failures, rolling maintenance,
both, or there are none.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np

from sim.arrays import BoolArray, FloatArray, IntArray
from sim.errors import SimulationError, check_numbers, nearest
from sim.text_files import quoted_rows, read_text
from sim.topology.topology import Topology

MOST_NAMED = 8  # servers in a message


class Change(IntEnum):
    """What happens to a server. It is up while every FAIL and CLOSE has had its OPEN."""

    FAIL = 0  # at once: jobs on it fall back to their last checkpoint
    CLOSE = 1  # with notice: jobs on it write a checkpoint
    OPEN = 2


@dataclass(frozen=True)
class Outages:
    """K changes in order of time; at one instant in order of rows."""

    at_s: FloatArray  # (K,) ascending
    server: IntArray  # (K,)
    change: IntArray  # (K,) Change

    def __post_init__(self) -> None:
        """Raise a SimulationError for the first row that no server could have had."""
        if not len(self.at_s) == len(self.server) == len(self.change):
            raise SimulationError("outages: at_s, server and change differ in length")
        wrong = ~(np.isfinite(self.at_s) & (self.at_s >= 0))
        self._refuse(wrong, "a time must be 0 or more seconds")
        self._refuse(np.diff(self.at_s, prepend=0.0) < 0, "times must ascend; sort the rows")
        self._refuse((self.change < 0) | (self.change > Change.OPEN), "there is no such change")
        self._refuse(self._opens_what_is_up(), "the server is up; close it or let it fail first")

    def _opens_what_is_up(self) -> BoolArray:
        """(K,) changes after which a server would have come back more often than gone."""
        by_server = np.argsort(self.server, kind="stable")
        step = np.where(self.change == Change.OPEN, -1, 1)[by_server]
        reasons = np.cumsum(step)
        _, rows = np.unique(self.server, return_counts=True)
        before = np.repeat((reasons - step)[np.cumsum(rows) - rows], rows)
        bad = np.zeros(len(self), dtype=np.bool_)
        bad[by_server] = reasons - before < 0
        return bad

    def _refuse(self, wrong: BoolArray, rule: str) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise SimulationError(
                f"outages: row {row} (t={self.at_s[row]} s, server {self.server[row]}, change "
                f"{self.change[row]}): {rule}"
            )

    def __len__(self) -> int:
        """Number of changes K."""
        return len(self.at_s)


NO_OUTAGES = Outages(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def outages_of_absences(
    server: IntArray, away_s: FloatArray, back_s: FloatArray, change: Change
) -> Outages:
    """Changes by which each server goes and comes back; absences of one server may overlap.

    Args:
        server: (N,)
        away_s: (N,) when it goes.
        back_s: (N,) when it comes back, not before it goes; inf: never.
        change: how it goes, FAIL or CLOSE.
    """
    at_s = np.stack([away_s, back_s], axis=1).ravel()
    kinds = np.tile(np.array([change, Change.OPEN], dtype=np.int64), len(server))
    order = np.argsort(at_s, kind="stable")  # at one instant nothing comes back before it went
    order = order[np.isfinite(at_s[order])]
    return Outages(at_s[order], np.repeat(server, 2)[order].astype(np.int64), kinds[order])


def joined(one: Outages, other: Outages) -> Outages:
    """Both, in order of time; at one instant those of `one` come first."""
    at_s = np.concatenate([one.at_s, other.at_s])
    order = np.argsort(at_s, kind="stable")
    return Outages(
        at_s[order],
        np.concatenate([one.server, other.server])[order],
        np.concatenate([one.change, other.change])[order],
    )


COLUMNS = ("time_s", "server", "change")
WORDS = {"fail": Change.FAIL, "close": Change.CLOSE, "remove": Change.CLOSE, "open": Change.OPEN,
         "add": Change.OPEN}  # fmt: skip


@dataclass(frozen=True)
class _Row:
    """One change with the line it stands on; `word` is what the file says."""

    line: int
    at_s: float
    server: int
    word: str


class OutageFile:
    """A CSV file with the columns time_s, server, change, in any order of rows.

    `server` is a name, where the topology has names, or an index. `change` is `fail` (at once),
    `close` (jobs write a checkpoint), `open`, `remove` (like close; for good unless it is opened),
    or `add`: the server is not there before. Rows of one instant apply in the order of the file.
    """

    assumed = "servers go and come as a file says"

    def __init__(self, *, path: str) -> None:
        """Read from `path` when a topology is known."""
        self._path = path

    def outages(self, topology: Topology, seed: int) -> Outages:
        """The changes of the file, whatever the seed; SimulationError names line and column."""
        del seed
        rows = sorted(self._read(topology), key=lambda row: row.at_s)
        first = {row.server: row.word for row in reversed(rows)}  # of each server the earliest
        reasons = {server: 1 for server, word in first.items() if word == "add"}
        before = [(0.0, server, Change.CLOSE) for server in sorted(reasons)]
        self._check_order(rows, reasons)
        changes = [*before, *((row.at_s, row.server, WORDS[row.word]) for row in rows)]
        at_s, server, change = np.array(changes, dtype=np.float64).reshape(-1, 3).T
        return Outages(at_s, server.astype(np.int64), change.astype(np.int64))

    def _check_order(self, rows: list[_Row], reasons: dict[int, int]) -> None:
        """Refuse rows that open or add a server that is up; `reasons` is used up."""
        for row in rows:
            count = reasons.get(row.server, 0)
            if WORDS[row.word] == Change.OPEN and count == 0:
                raise self._error(row.line, "change", row.word, "the server is up at that time; "
                                  "close it first, or add it once")  # fmt: skip
            reasons[row.server] = count + (-1 if WORDS[row.word] == Change.OPEN else 1)

    def _read(self, topology: Topology) -> list[_Row]:
        text = read_text(self._path, SimulationError, "set outages.path to a CSV file")
        table = list(quoted_rows(text, self._path, SimulationError))
        header = [name.strip() for name in table[0][0]] if table else []
        missing = [name for name in COLUMNS if name not in header]
        if missing:
            raise SimulationError(
                f"{self._path}:1: no column {', '.join(missing)}; the header is {','.join(COLUMNS)}"
            )
        places = [header.index(name) for name in COLUMNS]
        servers = _servers(topology)
        return [self._row(line, cells, places, servers) for cells, line in table[1:]]

    def _row(self, line: int, cells: list[str], places: list[int], servers: dict[str, int]) -> _Row:
        if len(cells) <= max(places):
            raise self._error(line, COLUMNS[places.index(max(places))], "", "the row is too short")
        time, server, word = (cells[place].strip() for place in places)
        try:
            at_s = float(time)
        except ValueError:
            at_s = math.nan
        if not 0 <= at_s < math.inf:
            raise self._error(line, "time_s", time, "expected 0 or more seconds")
        if server not in servers:
            names = list(servers)[-len(set(servers.values())) :]
            some = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
            known = f"the cluster has no such server; its {len(names)} are {some}"
            raise self._error(line, "server", server, known + nearest(server, servers))
        if word not in WORDS:
            raise self._error(line, "change", word, f"expected one of {', '.join(WORDS)}")
        return _Row(line, at_s, servers[server], word)

    def _error(self, line: int, column: str, value: str, rule: str) -> SimulationError:
        return SimulationError(f"{self._path}:{line}: {column} is {value!r}; {rule}")


def _servers(topology: Topology) -> dict[str, int]:
    """Index by what a file may call a server; names win over numbers."""
    found = {str(server): server for server in range(topology.num_servers)}
    if topology.server_name is not None:
        found |= {str(name): server for server, name in enumerate(topology.server_name.tolist())}
    return found


class Source(Protocol):
    """Anything that says when servers go away and come back."""

    def outages(self, topology: Topology, seed: int) -> Outages:
        """Its changes on `topology`."""


class FailuresAndMaintenance:
    """Both, independently of each other: a server is up when neither keeps it away.

    Maintenance does not wait for a repair, nor does a closed server keep from failing; at one
    instant failures come first.
    """

    assumed = "servers fail, in all windows alike, and are closed in turn"

    def __init__(self, *, failures: Source, maintenance: Source) -> None:
        """Two sources, as in `conf/outages/failures.yaml` and `conf/outages/maintenance.yaml`."""
        self._failures, self._maintenance = failures, maintenance

    def outages(self, topology: Topology, seed: int) -> Outages:
        """Changes of both in order of time; equal for equal seeds."""
        return joined(
            self._failures.outages(topology, seed), self._maintenance.outages(topology, seed)
        )


MOST_ABSENCES = 10_000_000


def _check_amount(means_s: Mapping[str, float], horizon_s: float, topology: Topology) -> None:
    """Refuse a mean time between absences of a server, by its key, that is surely a mistake."""
    for key, mean_s in means_s.items():
        expected = topology.num_servers * horizon_s / mean_s
        if expected > MOST_ABSENCES:
            raise SimulationError(
                f"outages.{key} {mean_s} over outages.horizon_s {horizon_s} means about "
                f"{expected:.0f} absences of {topology.num_servers} servers, above "
                f"{MOST_ABSENCES}; raise the first or lower the second"
            )


Draw = Callable[[np.random.Generator], float]
OWN, RACK = 0, 1  # streams


class ServerFailures:
    """Each server (and rack) fails and is repaired over and over, independently of the others.

    Time between the end of a repair and the next failure is Weibull with mean `mtbf_s`: shape 1
    is exponential, below 1 failures come in clusters, above 1 with age. Repairs are log-normal
    with median `repair_median_s`; `repair_sigma` is the standard deviation of their logarithm. A
    rack's failures (power, switch) are exponential with mean `rack_mtbf_s`; they take all its
    servers at once, and give them back at once. Every server and rack has its own random stream,
    so a larger cluster keeps the failures of a smaller one.

    Nobody knows beforehand how long a run lasts, so failures are drawn up to `horizon_s`; after
    that nothing fails any more, and what is being repaired comes back. What lies beyond the last
    job is never played.
    """

    assumed = "servers fail, in all windows alike"

    def __init__(
        self, *, mtbf_s: float, shape: float, repair_median_s: float, repair_sigma: float,
        rack_mtbf_s: float | None, horizon_s: float,
    ) -> None:  # fmt: skip
        """See the class; `rack_mtbf_s` None: racks do not fail."""
        check_numbers("outages", "above 0", SimulationError, mtbf_s=mtbf_s,
                      repair_median_s=repair_median_s, horizon_s=horizon_s)  # fmt: skip
        check_numbers("outages", "0.1 or more", SimulationError, shape=shape)
        check_numbers("outages", "0 or more", SimulationError, repair_sigma=repair_sigma)
        check_numbers("outages", "null, or above 0", SimulationError, rack_mtbf_s=rack_mtbf_s)
        self._mtbf_s, self._shape, self._rack_mtbf_s = mtbf_s, shape, rack_mtbf_s
        self._repair = (math.log(repair_median_s), repair_sigma)
        self._horizon_s = horizon_s

    def outages(self, topology: Topology, seed: int) -> Outages:
        """Failures of the servers of `topology`, by the seed; SimulationError: far too many."""
        scale_s = self._mtbf_s / math.gamma(1.0 + 1.0 / self._shape)
        means_s = {"mtbf_s": self._mtbf_s, "rack_mtbf_s": self._rack_mtbf_s or np.inf}
        _check_amount(means_s, self._horizon_s, topology)
        own = self._of_units(
            topology.num_servers, (seed, OWN), lambda rng: scale_s * float(rng.weibull(self._shape))
        )
        failures = outages_of_absences(*own, Change.FAIL)
        mean_s = self._rack_mtbf_s
        if mean_s is None:
            return failures
        racks, away_s, back_s = self._of_units(
            topology.num_racks, (seed, RACK), lambda rng: float(rng.exponential(mean_s))
        )
        inside = [np.flatnonzero(topology.server_rack == rack) for rack in racks.tolist()]
        sizes = [len(servers) for servers in inside]
        servers = np.concatenate([*inside, np.zeros(0, dtype=np.int64)])
        of_racks = outages_of_absences(
            servers, np.repeat(away_s, sizes), np.repeat(back_s, sizes), Change.FAIL
        )
        return joined(of_racks, failures)

    def _of_units(
        self, units: int, stream: tuple[int, int], up_s: Draw
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Unit, failure and repair of every failure before the horizon."""
        rows: list[tuple[int, float, float]] = []
        for unit in range(units):
            rng = np.random.default_rng((*stream, unit))
            now_s = up_s(rng)
            while now_s < self._horizon_s:
                back_s = now_s + float(rng.lognormal(*self._repair))
                rows.append((unit, now_s, back_s))
                now_s = back_s + up_s(rng)
        unit_of, away_s, back_at_s = np.array(rows, dtype=np.float64).reshape(-1, 3).T
        return unit_of.astype(np.int64), away_s, back_at_s


class RollingMaintenance:
    """Every `every_s`, from `first_s` on, all servers are closed in turn, a few at a time.

    In each round `servers_at_once` servers, in order of their index, are closed for `duration_s`,
    then the next ones. Jobs on them write a checkpoint and queue again. Rounds begin up to
    `horizon_s`; a run that lasts longer sees no more of them.
    """

    assumed = "servers are closed in turn"

    def __init__(
        self, *, first_s: float, every_s: float, duration_s: float, servers_at_once: int,
        horizon_s: float,
    ) -> None:  # fmt: skip
        """See the class."""
        spans = {"every_s": every_s, "duration_s": duration_s, "horizon_s": horizon_s}
        check_numbers("outages", "above 0", SimulationError, **spans)
        check_numbers("outages", "0 or more", SimulationError, first_s=first_s)
        check_numbers("outages", "1 or more", SimulationError, servers_at_once=servers_at_once)
        self._first_s, self._every_s, self._duration_s = first_s, every_s, duration_s
        self._at_once, self._horizon_s = servers_at_once, horizon_s

    def outages(self, topology: Topology, seed: int) -> Outages:
        """Closures of the servers of `topology`; the seed does not matter.

        Raises:
            SimulationError: one round does not end before the next begins, or too many rounds.
        """
        del seed
        turns = -(-topology.num_servers // self._at_once)
        if turns * self._duration_s > self._every_s:
            raise SimulationError(
                f"outages: a round of maintenance takes {turns * self._duration_s} s for "
                f"{topology.num_servers} servers, longer than every_s {self._every_s}; raise "
                "outages.every_s or outages.servers_at_once, or lower outages.duration_s"
            )
        _check_amount({"every_s": self._every_s}, self._horizon_s, topology)
        rounds_s = np.arange(self._first_s, self._horizon_s, self._every_s)
        servers = np.arange(topology.num_servers)
        offset_s = servers // self._at_once * self._duration_s
        away_s = (rounds_s[:, None] + offset_s).ravel()
        back_s = away_s + self._duration_s
        return outages_of_absences(np.tile(servers, len(rounds_s)), away_s, back_s, Change.CLOSE)


class NoOutages:
    """Nothing ever goes away."""

    def outages(self, topology: Topology, seed: int) -> Outages:
        """None."""
        del topology, seed
        return NO_OUTAGES
