"""Random legal runs round by round, with what every agent saw."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from marl.env.actions import FORWARD, START, SUSPEND
from marl.env.layout import NEEDS, CodecRules, Observation, layout_for
from marl.env.playing import Play
from marl.env.plays import Rounds, blank_buffers, forked
from marl.env.world import World
from sim.decision import Decision
from sim.jobs import JobTable
from sim.simulator import Simulator
from sim.view import ClusterView, state_of
from tests.marl.worlds import any_legal


def amid_gang(play: Play) -> bool:
    """Whether an agent has begun a gang that it has to complete."""
    return bool(play.memory.turn["begun"][0] > 0)


def rounds_forked(rounds: Rounds, view: ClusterView) -> Rounds:
    """The same turn in `view`, that of a fork of the run."""
    twin = Rounds(layout=rounds.layout, rules=rounds.rules)
    twin._play = forked(rounds.play(view), state_of(view), blank_buffers(rounds.layout))
    twin._links = rounds._links
    return twin


@dataclass(frozen=True)
class Round:
    """One turn: who saw what of which run, and what had happened before it at this instant.

    `pressed` are those that waited with nothing running, `sent` jobs that were forwarded, `last`
    is who acted last (0 in the beginning).
    """

    simulator: Simulator
    view: ClusterView
    rounds: Rounds
    seen: dict[int, Observation]
    waited: frozenset[int]
    pressed: frozenset[int]
    sent: frozenset[int]
    last: int

    @property
    def rules(self) -> CodecRules:
        return self.rounds.rules

    def window(self, agent: int) -> list[int]:
        """The oldest few that are out of patience, then those with least predicted work left."""
        jobs, most = self.view.jobs, self.rules.window
        here = [j for j in self.view.queued.tolist() if jobs.partition[j] == agent]
        left_s = np.maximum(jobs.predicted_remaining_s, 60.0)
        rest_s = self.rules.rest_share * jobs.progress_s
        left_s = np.maximum(left_s, np.minimum(rest_s, self.rules.rest_most_s or np.inf))
        old = []
        if len(here) > most:
            old = [j for j in here if self.view.now_s - jobs.submit_s[j] >= self.rules.patience_s]
            old = sorted(old, key=lambda j: jobs.submit_s[j])[: most // 4]
        rest = sorted((j for j in here if j not in old), key=lambda j: left_s[j])
        return [*old, *rest][:most]

    def servers(self, agent: int) -> list[int]:
        return np.flatnonzero(self.view.partition_of_server == agent).tolist()

    def gpus(self, server: int) -> range:
        return range(*self.view.topology.server_first_gpu[server : server + 2].tolist())

    def empty(self, server: int) -> int:
        return sum(self.view.tenants[gpu] == 0 for gpu in self.gpus(server))

    def joinable(self, server: int, job: int) -> int:
        """GPUs of `server` that are empty or may take `job` beside their tenants."""
        view, profile = self.view, self.view.jobs.profile
        fits = view.belief.pairs.feasible[view.server_type[server]]
        count = 0
        for gpu in self.gpus(server):
            held = [j for j in view.tenant[gpu].tolist() if j >= 0]
            room = len(held) < view.tenant.shape[1]
            count += room and all(fits[profile[job], profile[j]] for j in held)
        return count


def rounds_of(world: World, rules: CodecRules) -> Rounds:
    """Of a run that begins."""
    layout = layout_for(world.topology, world.partition_of_server, rules)
    rounds = Rounds(layout=layout, rules=rules)
    rounds.restart()
    return rounds


def play(world: World, jobs: JobTable, rules: CodecRules, seed: int) -> Iterator[Round]:
    """A random legal world, round by round; check a round before asking for the next."""
    rng = np.random.default_rng(seed)
    simulator = world.simulator(jobs)
    views = simulator.views(NEEDS)
    rounds = rounds_of(world, rules)
    layout = rounds.layout
    while simulator.advance():
        rounds.open()
        waited, pressed, sent, last = set[int](), set[int](), set[int](), 0
        while True:
            view = views.view()
            seen = rounds.observe(view, everyone=False)
            before = frozenset(waited), frozenset(pressed), frozenset(sent), last
            yield Round(simulator, view, rounds, seen, *before)
            if not seen:
                break
            (last,) = seen
            actions = {m: any_legal(rng, o) for m, o in seen.items()}
            rests = {m for m, action in actions.items() if action == layout.wait}
            hosts = {int(view.jobs.partition[job]) for job in view.running}
            able = {m for m, o in seen.items() if o["action_mask"][: layout.starts].any()}
            waited |= rests & (hosts | (set(seen) - able))
            pressed |= rests - waited
            decision = rounds.decide(view, actions)
            waited -= {forward.partition for forward in decision.forwards}
            sent |= {forward.job for forward in decision.forwards}
            simulator.apply(decision)


def allowed(kind: int, now: Round, agent: int) -> np.ndarray:
    """The mask of one kind of action: starts (W, S, MODES), forwards and suspensions (W, M)."""
    return now.rounds.layout.sizes.part(kind, now.seen[agent]["action_mask"]) > 0


starts_of, forwards_of, suspensions_of = (
    partial(allowed, kind) for kind in (START, FORWARD, SUSPEND)
)


def tried(simulator: Simulator, decision: Decision) -> Simulator:
    """A copy of the run in which the decision was applied; raises if it is not accepted."""
    trial = simulator.fork()
    trial.apply(decision)
    return trial
