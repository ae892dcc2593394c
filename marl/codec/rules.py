"""What agents may do and see, and what an observation is made of."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.signals import Signal

NEEDS = Signal.PREDICTION | Signal.PROFILE | Signal.INTERFERENCE
Observation = dict[str, npt.NDArray[np.float32 | np.int64 | np.int8]]

GANG, WORKER = "gang", "worker"  # what one action places
GRANULARITIES = (GANG, WORKER)


@dataclass(frozen=True)
class CodecRules:
    """What agents may do, beyond the simulator's own rules."""

    window: int  # waiting jobs an agent sees, by predicted work left (see docs/agents.md)
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
    suspends: bool = False  # whether agents may suspend running jobs for others
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
