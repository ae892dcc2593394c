"""Orders of an instant: a scheduler is asked until it has nothing more to do there."""

import logging
from collections.abc import Sequence
from functools import partial

from gpuyard.serving.forms import (
    AnswerForm,
    AssumedForm,
    ClusterForm,
    DecisionForm,
    ServerForm,
    StateForm,
)
from gpuyard.serving.instants import OF_DURATION, OF_PROFILE, Defaults, Set, Setter
from marl.env.game import Game
from sim.decision import Decision
from sim.errors import GpuYardError, SimulationError
from sim.protocols import Scheduler
from sim.view import ClusterView, Signal

log = logging.getLogger(__name__)

MOST_TURNS = 100_000
NOTHING = AssumedForm(estimate_s=0, profile=0)


class Decider:
    """Answers for one game and one scheduler; each request stands for itself."""

    def __init__(self, game: Game, scheduler: Scheduler, defaults: Defaults, seed: int) -> None:
        """See `Setter` for errors."""
        self.game = game
        self.scheduler = scheduler
        self.seed = seed
        self._setter = Setter(game, scheduler.needs, defaults)
        self.places = self._setter.places
        self._server = game.topology.gpu_server

    def decide(self, form: StateForm, closed: Sequence[int] = ()) -> AnswerForm:
        """All orders of the instant that `form` describes.

        Args:
            form: the cluster.
            closed: servers that take nobody new beside those that `form` names.

        Raises:
            RequestError: the request is impossible.
            GpuYardError: the scheduler's decision is.
        """
        answer = partial(AnswerForm, scheduler=self.scheduler.name, time_s=form.time_s)
        world = self._setter.set(form, closed)
        if world is None:
            return answer(decisions=[], waiting=[], ask_again_s=None, turns=0, assumed=NOTHING)
        self.scheduler.reset(self.seed)
        views = world.simulator.views(self.scheduler.needs)
        orders: list[DecisionForm] = []
        turn, again, wake_s = 0, True, None
        while again:
            decision = self._asked(views.view())
            world.simulator.apply(decision)
            orders += self._orders(decision, world, turn)
            again, wake_s, turn = decision.again, decision.wake_s, turn + 1
            if turn == MOST_TURNS:
                raise SimulationError(
                    f"{self.scheduler.name} has been asked {turn} times at one instant and goes on"
                )
        state = world.simulator.state
        first, count = int(state.world["queue_first"][0]), int(state.world["num_queued"][0])
        waiting = [world.ids[row] for row in state.queue[first : first + count].tolist()]
        return answer(
            decisions=orders, waiting=waiting, ask_again_s=wake_s, turns=turn,
            assumed=world.assumed,
        )  # fmt: skip

    def _asked(self, view: ClusterView) -> Decision:
        """The scheduler's decision.

        Raises:
            SimulationError: it fails, as one may that meets a state without its own past.
        """
        try:
            return self.scheduler.decide(view)
        except GpuYardError:
            raise
        except Exception as error:
            log.exception("%s failed", self.scheduler.name)
            raise SimulationError(
                f"{self.scheduler.name} failed ({error!r}); one that remembers what it did may, "
                "for each request stands for itself: serve another (docs/serve.md)"
            ) from error

    def _orders(self, decision: Decision, world: Set, turn: int) -> list[DecisionForm]:
        """In the order in which they are carried out."""
        ids = world.ids
        orders = [
            DecisionForm(action="preempt", job=ids[job], turn=turn) for job in decision.preempts
        ]
        orders += [
            DecisionForm(action="forward", job=ids[each.job], turn=turn, partition=each.partition)
            for each in decision.forwards
        ]
        for start in decision.starts:
            gpus = start.gpus.tolist()
            servers: dict[str, int] = {}
            for server in self._server[start.gpus].tolist():
                name = self.places.names[server]
                servers[name] = servers.get(name, 0) + 1
            orders.append(
                DecisionForm(
                    action="start", job=ids[start.job], turn=turn, gpus=gpus, servers=servers,
                    lease_s=start.lease_s,
                )
            )  # fmt: skip
        return orders

    def cluster(self) -> ClusterForm:
        """What requests have to fit."""
        topology, needs = self.game.topology, self.scheduler.needs
        told = {"estimate_s": OF_DURATION, "profile": OF_PROFILE}
        servers = [
            ServerForm(
                name=name,
                first_gpu=int(topology.server_first_gpu[at]),
                gpus=int(topology.gpus_per_server[at]),
                gpu_type=topology.gpu_types[int(topology.server_gpu_type[at])],
                rack=int(topology.server_rack[at]),
                partition=int(self.game.partition_of_server[at]),
            )
            for at, name in enumerate(self.places.names)
        ]
        return ClusterForm(
            scheduler=self.scheduler.name,
            needs=[field for field, signals in told.items() if needs & signals != Signal.NONE],
            signals=[str(signal.name) for signal in needs],
            topology=topology.name,
            gpus=topology.num_gpus,
            partitions=self.game.partitions,
            max_tenants=self.game.rules.max_tenants,
            seed=self.seed,
            profiles=list(self.game.physics.catalogue.names),
            servers=servers,
        )
