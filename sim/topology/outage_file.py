"""Outages listed in a CSV file: what happened to a cluster, or what is planned."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.errors import SimulationError
from sim.topology.outages import Change, Outages
from sim.topology.topology import Topology

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

    def __init__(self, *, path: str) -> None:
        """Read from `path` when a topology is known."""
        self._path = Path(path)

    def outages(self, topology: Topology, seed: int) -> Outages:
        """The changes of the file; the seed does not matter.

        Raises:
            SimulationError: naming file, line, column, value and rule.
        """
        del seed
        rows = sorted(self._read(topology), key=lambda row: row.at_s)
        reasons = dict.fromkeys((row.server for row in rows if row.word == "add"), 1)
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
        try:
            text = self._path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise SimulationError(
                f"{self._path}: {error.strerror}; set outages.path to a CSV file"
            ) from error
        except UnicodeDecodeError as error:
            raise SimulationError(f"{self._path}: not UTF-8 text ({error.reason})") from error
        try:
            table = list(csv.reader(text.splitlines(), strict=True))
        except csv.Error as error:
            raise SimulationError(f"{self._path}: not a CSV file ({error})") from error
        header = [name.strip() for name in table[0]] if table else []
        missing = [name for name in COLUMNS if name not in header]
        if missing:
            raise SimulationError(
                f"{self._path}:1: no column {', '.join(missing)}; the header is {','.join(COLUMNS)}"
            )
        places = [header.index(name) for name in COLUMNS]
        servers = _servers(topology)
        return [
            self._row(line, cells, places, servers)
            for line, cells in enumerate(table[1:], start=2)
            if cells
        ]

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
            raise self._error(line, "server", server, f"the cluster has {len(servers)} names and "
                              "numbers of servers, and this is none")  # fmt: skip
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
