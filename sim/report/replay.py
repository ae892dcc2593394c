"""Steps through an event log, checked on the way, and the replayed cluster as text."""

from collections.abc import Callable, Iterable

import numpy as np

from sim.arrays import IntArray
from sim.errors import amount
from sim.files import ReportError
from sim.report.run_tables import Recorded
from sim.report.timeline import QUEUES_AGAIN, STOPS
from sim.run import Kind
from sim.times import DAY_S, HOUR_S, MINUTE_S

ABSENT, BLOCKED, WAITING, RUNNING, GONE = "absent", "blocked", "waiting", "running", "gone"


class Replay:
    """The cluster after the first `position` events of a log.

    Every event is held against the state before it; the first one that cannot be raises
    ReportError with its number.
    """

    def __init__(self, recorded: Recorded, *, max_tenants: int) -> None:
        """Stand before the first event."""
        self.recorded = recorded
        self.max_tenants = max_tenants
        log = recorded.log
        self._rows = list(
            zip(log.time_s.tolist(), log.kind.tolist(), log.job.tolist(), log.gpus, strict=True)
        )
        self.rewind()

    def rewind(self) -> None:
        """Back to before the first event."""
        gpus = int(self.recorded.server_first_gpu[-1])
        self.position = 0
        self.now_s = self._rows[0][0] if self._rows else 0.0
        self.tenants = [0] * gpus
        self.down = [0] * gpus
        self.queue_length = 0
        self._state: dict[int, str] = {}
        self._began = set[int]()
        self._holds: dict[int, list[int]] = {}
        self._went_down: list[int] = []  # at this instant

    def __len__(self) -> int:
        """Number of events in the log."""
        return len(self._rows)

    @property
    def free_gpus(self) -> int:
        """GPUs without a tenant whose server is up."""
        return sum(1 for held, away in zip(self.tenants, self.down, strict=True) if held + away < 1)

    def forward(self) -> None:
        """Apply the next event; ReportError: it contradicts what came before."""
        time_s, kind, job, gpus = self._rows[self.position]
        if time_s < self.now_s:
            raise self._wrong(f"goes back from t={self.now_s} s to t={time_s} s")
        if time_s > self.now_s:
            self._check_down()
        self.now_s = time_s
        if kind in (Kind.SERVER_DOWN, Kind.SERVER_UP):
            self._server(kind, gpus.tolist())
        else:
            self._job(kind, job, gpus.tolist())
        self.position += 1

    def go_to(self, position: int) -> None:
        """Stand after the first `position` events, from the beginning if that is behind."""
        if position < self.position:
            self.rewind()
        while self.position < position:
            self.forward()

    def finish(self) -> None:
        """Go to the end, where nobody may hold a GPU (else ReportError)."""
        self.go_to(len(self))
        self._check_down()
        if self._holds:
            job, gpus = next(iter(self._holds.items()))
            raise ReportError(
                f"after event {len(self) - 1}, the last: GPUs are held by "
                f"{amount(len(self._holds), 'job')}; the first is job {self.recorded.job_id[job]} "
                f"with GPUs {_few(gpus)}"
            )
        for job, name in enumerate(self.recorded.job_id):
            if lacks := self._lacking(job):
                raise ReportError(
                    f"job {name} has no {lacks} in the log, but one in jobs.parquet: events are "
                    "missing, or of another run"
                )

    def _lacking(self, job: int) -> str:
        """What the file of jobs has of a job and the whole log has not; empty: nothing."""
        state = self._state.get(job, ABSENT)
        if state == ABSENT:
            return "arrival"
        if self.recorded.started[job] and job not in self._began:
            return "start"
        return "end" if self.recorded.ended[job] and state != GONE else ""

    def _job(self, kind: int, job: int, gpus: list[int]) -> None:
        state = self._state.get(job, ABSENT)
        if kind == Kind.ARRIVAL:
            self._expect(state, (ABSENT,))
            self._move(job, BLOCKED if self.recorded.blocked[job] else WAITING)
        elif kind == Kind.READY:
            self._expect(state, (BLOCKED,))
            self._move(job, WAITING)
        elif kind == Kind.START:
            self._expect(state, (WAITING,))
            self._take(job, gpus)
            self._move(job, RUNNING)
        elif kind == Kind.FORWARD:
            self._expect(state, (WAITING,))
        elif kind == Kind.WITHDRAW and state != RUNNING:
            self._expect(state, (WAITING, BLOCKED))
            if gpus:
                raise self._wrong(f"gives back GPUs {_few(gpus)}, it held none")
            self._move(job, GONE)
        elif kind in STOPS:
            self._expect(state, (RUNNING,))
            self._give_back(job, gpus)
            self._move(job, WAITING if kind in QUEUES_AGAIN else GONE)

    def _move(self, job: int, state: str) -> None:
        """Note the job's new state and the queue's new length."""
        self.queue_length += (state == WAITING) - (self._state.get(job, ABSENT) == WAITING)
        self._state[job] = state

    def _take(self, job: int, gpus: list[int]) -> None:
        least = int(self.recorded.least_gpus[job])
        most = int(self.recorded.most_gpus[job])
        if not least <= len(gpus) <= most:
            asks = str(least) if least == most else f"{least} to {most}"
            raise self._wrong(f"starts on {amount(len(gpus), 'GPU')}, its gang is {asks}")
        if len(set(gpus)) < len(gpus):
            raise self._wrong(f"names a GPU twice: {_few(gpus)}")
        for gpu in gpus:
            if not 0 <= gpu < len(self.tenants):
                raise self._wrong(f"takes GPU {gpu}; the cluster has {len(self.tenants)}")
            if self.down[gpu]:
                raise self._wrong(f"takes GPU {gpu}, whose server is down")
            if self.tenants[gpu] >= self.max_tenants:
                raise self._wrong(f"takes GPU {gpu}, which has {self.tenants[gpu]} tenants already")
        for gpu in gpus:
            self.tenants[gpu] += 1
        self._holds[job] = gpus
        self._began.add(job)

    def _give_back(self, job: int, gpus: list[int]) -> None:
        held = self._holds.pop(job)
        if sorted(held) != sorted(gpus):
            raise self._wrong(f"gives back GPUs {_few(gpus)}, it held {_few(held)}")
        for gpu in gpus:
            self.tenants[gpu] -= 1

    def _server(self, kind: int, gpus: list[int]) -> None:
        for gpu in gpus:
            if not 0 <= gpu < len(self.down):
                raise self._wrong(f"names GPU {gpu}; the cluster has {len(self.down)}")
            if kind == Kind.SERVER_UP and not self.down[gpu]:
                raise self._wrong(f"brings up GPU {gpu}, which was not down")
            self.down[gpu] += 1 if kind == Kind.SERVER_DOWN else -1
        if kind == Kind.SERVER_DOWN:
            self._went_down += gpus

    def _check_down(self) -> None:
        """At the end of an instant nobody is left on a server that went down in it."""
        held = [gpu for gpu in self._went_down if self.down[gpu] and self.tenants[gpu]]
        self._went_down = []
        if held:
            raise ReportError(
                f"before event {self.position}: GPUs {_few(held)} are held although their server "
                f"went down at t={self.now_s} s; an evict is missing"
            )

    def _expect(self, state: str, legal: tuple[str, ...]) -> None:
        if state not in legal:
            raise self._wrong(f"comes while the job is {state}, not {' or '.join(legal)}")

    def _wrong(self, what: str) -> ReportError:
        time_s, kind, job, _ = self._rows[self.position]
        who = f" of job {self.recorded.job_id[job]}" if job >= 0 else ""
        name = Kind(kind).name.lower()
        return ReportError(f"event {self.position} (t={time_s} s): {name}{who} {what}")


def _few(gpus: list[int]) -> str:
    """At most eight of them, in words."""
    most = 8
    text = ", ".join(map(str, gpus[:most]))
    return text + (f" and {len(gpus) - most} more" if len(gpus) > most else "")


LEVELS = "·▁▂▃▄▅▆▇█"  # share of busy GPUs, none to all
DOWN = "x"
MOST_TENANTS_SHOWN = 9
LEGEND_GPUS = "one sign a GPU: · free, 1-9 tenants, x down"
LEGEND_SERVERS = f"one sign a server: {LEVELS} share of busy GPUs, x down"
LEGEND_RACKS = f"one sign a rack: {LEVELS} share of busy GPUs, x down"


def event_line(replay: Replay, event: int) -> str:
    """What event number `event` did, and the queue and free GPUs now."""
    log = replay.recorded.log
    job = int(log.job[event])
    gpus = log.gpus[event]
    if job >= 0:
        who = f"job {replay.recorded.job_id[job]}"
    else:
        who = f"server {_server_name(replay.recorded, gpus)}"
    where = f"GPUs {ranges(gpus)}" if len(gpus) else ""
    kind = Kind(int(log.kind[event])).name.lower()
    return (
        f"#{event:<6} {clock(float(log.time_s[event])):>15}  {kind:<11} {who:<24} "
        f"partition {log.partition[event]:<3} queue {replay.queue_length:<5} "
        f"free {replay.free_gpus}/{len(replay.tenants)}  {where}"
    ).rstrip()


def clock(time_s: float) -> str:
    """Days and time of day since time 0, like `3d 04:05:06.5`."""
    days, rest = divmod(round(time_s, 1), DAY_S)
    hours, rest = divmod(rest, HOUR_S)
    minutes, seconds = divmod(rest, MINUTE_S)
    text = f"{int(hours):02d}:{int(minutes):02d}:{seconds:04.1f}"
    return f"{int(days)}d {text}" if days else text


def ranges(numbers: Iterable[int]) -> str:
    """Numbers with runs joined, like `0-3,8`."""
    found: list[list[int]] = []
    for number in sorted(int(n) for n in numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def heat_map(replay: Replay, *, width: int, height: int) -> str:
    """The cluster now, in at most `width` columns and about `height` lines if that can be.

    One sign a GPU where the cluster is small enough, else one a server, else one a rack.
    """
    recorded = replay.recorded
    racks = [np.flatnonzero(recorded.server_rack == r) for r in np.unique(recorded.server_rack)]
    for legend, shown, gap in ((LEGEND_GPUS, _gpu_signs, " "), (LEGEND_SERVERS, _sign, "")):
        drawn = _rack_lines(replay, racks, shown, gap)
        if len(drawn) <= height and max(map(len, drawn)) <= width:
            return "\n".join([legend, *drawn])
    signs = "".join(_sign(replay, _gpus_of(recorded, rack)) for rack in racks)
    cut = [signs[at : at + width] for at in range(0, len(signs), width)]
    return "\n".join([LEGEND_RACKS, *cut])


def _rack_lines(
    replay: Replay, racks: list[IntArray], shown: Callable[[Replay, list[int]], str], gap: str
) -> list[str]:
    """A line a rack: its title, and what is shown of the GPUs of each of its servers."""
    lines = []
    for number, rack in enumerate(racks):
        gpus = [_gpus_of(replay.recorded, np.array([server])) for server in rack.tolist()]
        signs = gap.join(shown(replay, each) for each in gpus)
        lines.append(f"{_rack_title(replay, number, rack)}  {signs}")
    return lines


def _rack_title(replay: Replay, number: int, rack: IntArray) -> str:
    """Name of a rack and the share of its GPUs that are busy."""
    gpus = _gpus_of(replay.recorded, rack)
    busy = sum(replay.tenants[gpu] > 0 for gpu in gpus)
    return f"rack {number:<4} {busy / len(gpus):4.0%}"


def _gpus_of(recorded: Recorded, servers: IntArray) -> list[int]:
    first = recorded.server_first_gpu
    return [gpu for server in servers.tolist() for gpu in range(first[server], first[server + 1])]


def _gpu_signs(replay: Replay, gpus: list[int]) -> str:
    """One for each GPU: its tenants, or that it is down."""
    tenants = (min(replay.tenants[gpu], MOST_TENANTS_SHOWN) or LEVELS[0] for gpu in gpus)
    away = (replay.down[gpu] for gpu in gpus)
    return "".join(DOWN if down else str(n) for down, n in zip(away, tenants, strict=True))


def _sign(replay: Replay, gpus: list[int]) -> str:
    """Share of busy GPUs; a sign of its own for none and for all."""
    if all(replay.down[gpu] for gpu in gpus):
        return DOWN
    busy = sum(replay.tenants[gpu] > 0 for gpu in gpus)
    return LEVELS[int(np.ceil((len(LEVELS) - 1) * busy / len(gpus)))]


def _server_name(recorded: Recorded, gpus: IntArray) -> str:
    if not len(gpus):
        return "?"
    server = int(np.searchsorted(recorded.server_first_gpu, int(gpus[0]), side="right")) - 1
    return str(recorded.server_name[server])
