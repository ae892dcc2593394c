"""Skew: Tiresias' placement rule, which keeps only models with one large tensor together."""

from collections.abc import Sequence

import numpy as np

from sim.arrays import BoolArray, IntArray
from sim.engine.codes import SKEW
from sim.errors import GpuYardError
from sim.physics.catalogue import Catalogue
from sim.placing.tiers import NETWORK, needed_tier, offer
from sim.signals import Signal
from sim.slots import Slots
from sim.view import ClusterView


class Skew:
    """A gang of a skewed model waits for one server, or one rack if no server could hold it.

    Other gangs, and those that no rack could hold, prefer a server, then a rack, then take any
    GPUs; the first place found serves. The rule of Tiresias (Gu et al., NSDI 2019) as the
    simulator of Dally's authors has it (Sharma et al., arXiv 2401.16492), which consolidates
    AlexNet, VGG and MobileNetV3 but not ResNet or BERT. Chosen here: of a rack, the servers with
    most usable GPUs go first; a model that the catalogue lacks is not skewed.
    """

    name = "skew"
    needs = Signal.PROFILE | Signal.INTERFERENCE
    engine_code = SKEW

    def __init__(self, *, models: Sequence[str]) -> None:
        """`models`: beginnings of the names of skewed models; case and punctuation do not count.

        Raises:
            GpuYardError: a name has neither letter nor digit.
        """
        self._models = tuple(_plain(model) for model in models)
        if "" in self._models:
            raise GpuYardError(
                f"placer.models is {list(models)}; every name needs a letter or a digit"
            )
        self._known: tuple[Catalogue, BoolArray] | None = None

    def wake_s(self, view: ClusterView, job: int) -> float | None:
        """None: time alone changes nothing."""
        del view, job
        return None

    def place(self, gang: int, slots: Slots, rng: np.random.Generator) -> IntArray | None:
        """GPUs, or None while the job has to wait."""
        del rng
        view = slots.view
        skewed = self.skewed(view.belief.catalogue)[view.jobs.profile[slots.job]]
        found = offer(slots, gang, needed_tier(slots, gang) if skewed else NETWORK)
        return None if found is None else found[1]

    def skewed(self, catalogue: Catalogue) -> BoolArray:
        """(P,) which profiles are of skewed models."""
        if self._known is None or self._known[0] is not catalogue:
            plain = [_plain(name.rpartition("/")[0]) for name in catalogue.names]
            hit = [bool(self._models) and name.startswith(self._models) for name in plain]
            self._known = catalogue, np.array(hit, dtype=np.bool_)
        return self._known[1]


def _plain(name: str) -> str:
    """Letters and digits of a model's name: "MobileNet-V3" and "mobilenet_v3" are one."""
    return "".join(sign for sign in name.lower() if sign.isalnum())
