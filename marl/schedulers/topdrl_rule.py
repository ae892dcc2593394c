"""The rule that TopDRL's network learns from first, as a scheduler of its own."""

from typing import Any

from marl.topdrl.codec import NEEDS, Codec
from marl.topdrl.spec import MULTI, NetworkSpec, SightSpec, on_cluster
from marl.topdrl.teacher import CompactTeacher
from sim.decision import WAIT, Decision
from sim.view import ClusterView


class TopDrlRule:
    """Most valuable job first, on the closest GPUs, where these are compact enough; else hold.

    Ours: it shows how much of TopDRL's result is the rule's and how much was learnt.
    """

    needs = NEEDS
    one_queue = True
    name = "topdrl_rule"

    def __init__(self, *, least_speed: float, sight: dict[str, Any]) -> None:
        """`least_speed` on the closest GPUs, relative to compact ones; `sight` as the network's.

        Raises:
            TopDrlError: a value is out of range.
        """
        self._teacher = CompactTeacher(least_speed)
        self._sight = SightSpec(**sight)
        self._codec: Codec | None = None

    def reset(self, seed: int) -> None:
        """Forget the run; nothing is drawn."""
        del seed
        self._codec = None

    def decide(self, view: ClusterView) -> Decision:
        """Start one job and ask again, or hold."""
        if len(view.queued) == 0:
            return WAIT
        if self._codec is None:
            most = int(view.topology.gpus_per_server.max())
            seen = NetworkSpec(branches=MULTI, channels=1, hidden=1, server_gpus=most)
            self._codec = Codec(view, self._sight, on_cluster(seen, view.topology))
        sight = self._codec.see(view)
        if not sight.has_choice:
            return WAIT
        return sight.decision(self._teacher.act(sight.observation))
