"""One decision epoch as rounds of simultaneous actions, until every agent waits."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from marl.codec.candidates import SHARED, place_outwards, usable_counts
from marl.codec.layout import MODES, Layout
from marl.codec.observe import observe_agent
from marl.codec.summary import summarise
from marl.codec.tables import Tables, tables_of
from sim.arrays import IntArray
from sim.decision import Decision, Forward, Start
from sim.errors import InvalidDecision
from sim.view import ClusterView

Observation = dict[str, npt.NDArray[np.float32 | np.int64]]


@dataclass(frozen=True)
class CodecRules:
    """What agents may do, beyond the simulator's own rules."""

    window: int  # waiting jobs an agent sees, by predicted work left
    only_placeable: bool  # forward only to where the gang could start at once
    sharing: bool  # whether agents may share GPUs


class Rounds:
    """Keeps who has waited; everything else is read from the view anew at each round.

    Peers' rows are as of this round, so an agent sees what others did in earlier rounds of the
    epoch but not what they do in this one.
    """

    def __init__(self, *, layout: Layout, rules: CodecRules) -> None:
        """`layout` gives the padded sizes of observations."""
        self.layout = layout
        self.rules = rules
        self._tables: Tables | None = None
        self._waited: set[int] = set()
        self._windows: dict[int, IntArray] = {}

    def restart(self) -> None:
        """Forget the run: call before the first view of another."""
        self._tables = None
        self.open()

    def open(self) -> None:
        """A new epoch: everybody may act."""
        self._waited = set()
        self._windows = {}

    def observe(self, view: ClusterView, everyone: bool) -> dict[int, Observation]:
        """Observations of the agents that must act; of all agents if `everyone`.

        An agent that need not act has only *wait* in its mask.
        """
        if self._tables is None:
            self._tables = tables_of(view)
        tables, at = self._tables, view.jobs.partition
        summary = summarise(
            tables, view.partition_of_server, at, view.queued, view.running, view.num_partitions
        )
        seen: dict[int, Observation] = {}
        self._windows = {}
        for agent in range(view.num_partitions):
            queue = view.queued[at[view.queued] == agent]
            silent = agent in self._waited or len(queue) == 0
            if silent and not everyone:
                continue
            work_s = np.maximum(tables.estimate_s[queue] - tables.progress_s[queue], 0.0)
            window = queue[np.argsort(work_s, kind="stable")[: self.rules.window]]
            observation = self._blank()
            idle = not bool((at[view.running] == agent).any())
            legal = observe_agent(
                tables, summary, agent, np.flatnonzero(view.partition_of_server == agent), window,
                view.queued, at, view.jobs.submit_s, view.jobs.forwards, view.now_s,
                view.max_forwards, self.rules.only_placeable, self.rules.sharing, idle,
                *(observation[key] for key in OUTPUTS),
            )  # fmt: skip
            if silent or legal == 0:
                observation["action_mask"][:] = 0
                observation["action_mask"][-1] = 1
            if everyone or (legal > 0 and not silent):
                seen[agent] = observation
            self._windows[agent] = window
        return seen

    def _blank(self) -> Observation:
        return {
            key: np.zeros(shape, dtype=np.int64 if key == "server_rack" else np.float32)
            for key, shape in self.layout.shapes().items()
        }

    def decide(self, view: ClusterView, actions: dict[int, int]) -> Decision:
        """The decision that the agents' actions make together, on the view they were made for."""
        starts: list[Start] = []
        forwards: list[Forward] = []
        for agent, action in sorted(actions.items()):
            if action == self.layout.wait:
                self._waited.add(agent)
            elif action < self.layout.starts:
                starts.append(self._start(view, agent, action))
            else:
                job, target = divmod(action - self.layout.starts, self.layout.partitions)
                forwards.append(Forward(self._job(agent, job, action), target))
                self._waited.discard(target)
        return Decision(starts=tuple(starts), forwards=tuple(forwards), again=True)

    def _job(self, agent: int, row: int, action: int) -> int:
        window = self._windows.get(agent, np.empty(0, dtype=np.int64))
        if row >= len(window):
            raise InvalidDecision(
                f"agent {agent}: action {action} names job {row} of a window of {len(window)}; "
                "choose an action whose mask is 1"
            )
        return int(window[row])

    def _start(self, view: ClusterView, agent: int, action: int) -> Start:
        row, place = divmod(action, self.layout.servers * MODES)
        server, mode = divmod(place, MODES)
        job = self._job(agent, row, action)
        servers = np.flatnonzero(view.partition_of_server == agent)
        gpus = np.empty(0, dtype=np.int64)
        if self._tables is not None and server < len(servers):
            counts = usable_counts(self._tables, job, servers, mode)
            gpus = place_outwards(self._tables, job, servers, counts, server, mode)
        if len(gpus) == 0 or (mode == SHARED and not self.rules.sharing):
            raise InvalidDecision(
                f"agent {agent}: action {action} starts job row {job} from its server {server} "
                f"in mode {mode}, which is not possible at t={view.now_s:.1f} s; "
                "choose an action whose mask is 1"
            )
        return Start(job, gpus)


OUTPUTS = (
    "jobs",
    "gpus",
    "servers",
    "server_rack",
    "pairs",
    "peers",
    "forwards",
    "context",
    "action_mask",
)
