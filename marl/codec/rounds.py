"""One decision epoch as turns of the agents, until every agent waits."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from marl.codec.clock import IntervalClock
from marl.codec.layout import MODES, Layout
from marl.codec.links import LinkSight
from marl.codec.observe import (
    Begun,
    Canvas,
    Limits,
    begin_turn,
    hide_peers,
    observe_agent,
    observe_next_worker,
)
from sim.arrays import IntArray
from sim.decision import Decision, Forward, Start
from sim.errors import InvalidDecision
from sim.scoring.desk import Desk, Mind, desk_of
from sim.scoring.filling import place
from sim.scoring.laying import begin_gang, lay_out
from sim.scoring.table import OfForward
from sim.view import ClusterView

Observation = dict[str, npt.NDArray[np.float32 | np.int64 | np.int8]]
DTYPES = {"server_rack": np.int64, "action_mask": np.int8}  # the others are float32
NOBODY: IntArray = np.empty(0, dtype=np.int64)
GANG, WORKER = "gang", "worker"  # what one action places
GRANULARITIES = (GANG, WORKER)


@dataclass(frozen=True)
class CodecRules:
    """What agents may do, beyond the simulator's own rules."""

    window: int  # waiting jobs an agent sees, by predicted work left (see docs/marl.md)
    only_placeable: bool  # forward only to where the gang could start at once
    sharing: bool  # whether agents may share GPUs
    patience_s: (
        float  # a job this old that fits compactly on empty GPUs now must not be kept waiting
    )
    # Policies of before know none of these choices.
    alone: bool = False  # see and reach the own partition only
    blind_peers: bool = False  # may send jobs to other partitions, but see nothing of them
    links: bool = False  # observations also hold links: the encoder reads them
    granularity: str = GANG  # worker: one action places one worker, and the gang is completed next
    interval_s: float = 0.0  # agents act at multiples of this; 0: at every event
    rest_share: float = 0.0  # of what a job has done, which it is thought to have left at least

    def __post_init__(self) -> None:
        """Raise ValueError for a value that is none of the choices."""
        if self.granularity not in GRANULARITIES:
            known = " or ".join(GRANULARITIES)
            raise ValueError(f"rules.granularity is {self.granularity!r}; it must be {known}")
        for key in ("interval_s", "rest_share"):
            value = getattr(self, key)
            if not 0.0 <= value < float("inf"):
                raise ValueError(f"rules.{key} is {value}; it must be 0 or more")


class Rounds:
    """Keeps who has waited and what was sent; the rest is read from the view anew at each turn.

    One agent acts at a time: it goes on until it waits, then the next does, and so on around until
    all have waited since they last got a job. So it sees what the others have done in this epoch,
    and two agents never send their jobs to the same empty GPUs (docs/marl.md says what acting all
    at once cost). A job is sent once an epoch: whoever gets jobs chooses among all of them.
    """

    def __init__(self, *, layout: Layout, rules: CodecRules) -> None:
        """`layout` gives the padded sizes of observations."""
        self.layout = layout
        self.rules = rules
        self._desk: Desk | None = None
        self._links: LinkSight | None = None
        self._clock = IntervalClock(rules.interval_s)
        self._waited: set[int] = set()
        self._pressed: set[int] = set()  # waited though nothing runs: have to start a job
        self._sent: set[int] = set()  # jobs that stay where they are for the rest of the epoch
        self._turn: int | None = None
        self._last = 0  # whose turn it was last
        self._begun: Begun | None = None  # by the agent of the turn before
        self._windows: dict[int, IntArray] = {}
        self._masks: dict[int, npt.NDArray[np.int8]] = {}

    def restart(self) -> None:
        """Forget the run: call before the first view of another."""
        self._desk = None
        self._clock.restart()
        self.open()

    def open(self) -> None:
        """A new epoch: everybody may act."""
        self._waited, self._pressed, self._sent = set(), set(), set()
        self._turn, self._last, self._begun = None, 0, None
        self._windows = {}
        self._masks = {}

    def pause_s(self, view: ClusterView) -> float | None:
        """When agents act next, None: now. To be asked at each decision epoch, before they act."""
        return self._clock.pause_s(view.now_s)

    def observe(self, view: ClusterView, everyone: bool) -> dict[int, Observation]:
        """The observation of the agent whose turn it is, if any; of all agents if `everyone`.

        An agent whose turn it is not has only *wait* in its mask.
        """
        self._turn, self._windows, self._masks = None, {}, {}
        seen: dict[int, Observation] = {}
        if not everyone:
            # At most epochs most partitions have no job that waits, hence nothing to choose.
            busy = set(view.jobs.partition[view.queued].tolist())
            self._waited |= set(range(view.num_partitions)) - busy
            if self._waited.issuperset(busy):
                return seen
        desk = self._known(view)
        lay_out(desk, view.queued, view.running, view.now_s)
        last = self._last
        for agent in (*range(last, view.num_partitions), *range(last)):
            silent = self._turn is not None or agent in self._waited
            silent = silent or (self._begun is not None and agent != last)
            if silent and not everyone:
                continue
            observation, legal = self._observe_one(view, desk, agent, silent)
            if silent or legal == 0:
                self._waited |= set() if silent else {agent}
                observation["action_mask"][:] = 0
                observation["action_mask"][-1] = 1
            else:
                self._turn = self._last = agent
            if everyone or agent == self._turn:
                seen[agent] = observation
                self._masks[agent] = observation["action_mask"].astype(np.int8)
        return seen

    def _observe_one(
        self, view: ClusterView, desk: Desk, agent: int, silent: bool
    ) -> tuple[Observation, int]:
        """What `agent` sees, and how many actions besides *wait* are legal by the game's rules."""
        begin_turn(desk, agent)
        window = desk.waiting["job"][desk.window[: desk.game["num_window"][0]]]
        canvas = self._blank(view, agent)
        limits = Limits(
            view.max_forwards,
            self.rules.only_placeable,
            self.rules.sharing,
            agent in self._pressed and _idle(view, agent),
            self.rules.alone,
        )
        if self._begun is None or silent:
            begin_gang(desk, NOBODY)
            legal = observe_agent(desk, agent, limits, canvas)
            legal -= self._keep_sent(window, canvas)
        else:
            begin_gang(desk, self._begun.gpus)
            legal = observe_next_worker(desk, agent, limits, self._begun, canvas)
        self._windows[agent] = window
        if self.rules.blind_peers:
            hide_peers(agent, canvas)
        observation: Observation = canvas._asdict()
        if self._links is not None:
            observation |= self._links.observe(view, desk, agent)
        return observation, legal

    def _keep_sent(self, window: IntArray, canvas: Canvas) -> int:
        """Make forwards of jobs that were sent in this epoch illegal; how many that were legal."""
        rows = np.flatnonzero([int(job) in self._sent for job in window])
        sends = canvas.action_mask[self.layout.starts : -1].reshape(self.rules.window, -1)
        kept = int(sends[rows].sum())
        sends[rows] = 0
        canvas.forwards[rows, :, OfForward.LEGAL] = 0.0
        return kept

    def _known(self, view: ClusterView) -> Desk:
        if self._desk is None:
            rules = self.rules
            self._desk = desk_of(
                view,
                Mind(
                    window=rules.window,
                    patience_s=float(rules.patience_s),
                    use_durations=True,
                    rest_share=float(rules.rest_share),
                    look_ahead=True,
                ),
            )
            self._links = LinkSight(view, self.layout) if self.layout.edges else None
        return self._desk

    def _blank(self, view: ClusterView, agent: int) -> Canvas:
        """Arrays of zeros, but for the numbers of the racks."""
        shapes = self.layout.shapes()
        canvas = Canvas(
            **{key: np.zeros(shapes[key], DTYPES.get(key, np.float32)) for key in Canvas._fields}
        )
        racks = view.topology.server_rack[view.partition_of_server == agent]
        # Not always neighbours: numbered from 0 all the same.
        canvas.server_rack[: len(racks)] = np.searchsorted(np.unique(racks), racks)
        return canvas

    def decide(self, view: ClusterView, actions: dict[int, int]) -> Decision:
        """The decision that the agents' actions make together, on the view they were made for.

        Raises:
            InvalidDecision: if an action is not legal in the agent's last observation.
        """
        starts: list[Start] = []
        forwards: list[Forward] = []
        for agent, action in sorted(actions.items()):
            self._check(view, agent, action)
            if action == self.layout.wait:
                self._wait(view, agent)
            elif action < self.layout.starts:
                starts += self._started(view, agent, action)
            else:
                job, target = divmod(action - self.layout.starts, self.layout.partitions)
                forwards.append(Forward(int(self._windows[agent][job]), target))
        # Who gets a job acts again when its turn comes, also if it has waited.
        self._waited -= {forward.partition for forward in forwards}
        self._sent |= {forward.job for forward in forwards}
        return Decision(starts=tuple(starts), forwards=tuple(forwards), again=True)

    def _wait(self, view: ClusterView, agent: int) -> None:
        """Who waits while nothing runs in its partition is asked again, and has to start a job."""
        if agent != self._turn:
            return
        can_start = bool(self._masks[agent][: self.layout.starts].any())
        asked_again = can_start and _idle(view, agent)
        (self._pressed if asked_again else self._waited).add(agent)

    def _check(self, view: ClusterView, agent: int, action: int) -> None:
        mask = self._masks.get(agent)
        if mask is None:
            legal = action == self.layout.wait
        else:
            legal = 0 <= action < self.layout.actions and bool(mask[action])
        if not legal:
            raise InvalidDecision(
                f"agent {agent}: action {action} ({self._told(action)}) is not legal at "
                f"t={view.now_s:.1f} s; choose an action whose mask is 1"
            )

    def _told(self, action: int) -> str:
        if action == self.layout.wait:
            return "wait"
        if not 0 <= action < self.layout.actions:
            return f"there are {self.layout.actions} actions"
        if action < self.layout.starts:
            row, server, mode = self._start_of(action)
            return f"start job {row} of the window from server {server} in mode {mode}"
        row, target = divmod(action - self.layout.starts, self.layout.partitions)
        return f"forward job {row} of the window to partition {target}"

    def _start_of(self, action: int) -> tuple[int, int, int]:
        """Row of the window, own server, mode."""
        row, place = divmod(action, self.layout.servers * MODES)
        return row, *divmod(place, MODES)

    def _started(self, view: ClusterView, agent: int, action: int) -> list[Start]:
        """The start that the action makes; none while workers of the gang are missing."""
        row, server, mode = self._start_of(action)
        desk, job = self._known(view), int(self._windows[agent][row])
        placed = NOBODY if self._begun is None else self._begun.gpus
        begin_gang(desk, placed)
        owned = np.flatnonzero(view.partition_of_server == agent)
        place(desk, job, agent, owned[server], mode)
        gang = desk.seats[: int(view.jobs.num_gpus[job])].copy()
        if self.rules.granularity == GANG or len(placed) + 1 == len(gang):
            self._begun = None
            return [Start(job, gang)]
        self._begun = Begun(row, mode, gang[: len(placed) + 1])
        return []


def _idle(view: ClusterView, agent: int) -> bool:
    """Whether nothing runs in the partition."""
    return not bool((view.jobs.partition[view.running] == agent).any())
