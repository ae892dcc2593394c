"""Every rule there is, by name, for tests that try all of them."""

from collections.abc import Callable

from sim.engine.composed import QueueScheduler
from sim.forwarding import (
    LeastLoadedForwarding,
    OwnOnly,
    OwnThenLeastLoaded,
    RandomForwarding,
    Steal,
)
from sim.placers.by_room import (
    Consolidated,
    FirstFit,
    LeastInterference,
    LeastLoaded,
    Packed,
    Random,
    WorstFit,
)
from sim.protocols import Placer, Sharing
from sim.schedulers.orders import (
    Fifo,
    Las,
    LeastInterferenceFirst,
    LoadBalance,
    Sjf,
    SmallestGang,
    Srtf,
    Tetris,
)
from sim.sharing import AlwaysShare, FallbackSharing, NoSharing, SelectiveSharing

Make = Callable[[Placer, Sharing], QueueScheduler]

ORDERS: dict[str, Make] = {
    "fifo": lambda p, s: Fifo(placer=p, sharing=s, skip_blocked=False),
    "fifo_skip": lambda p, s: Fifo(placer=p, sharing=s, skip_blocked=True),
    "las": lambda p, s: Las(placer=p, sharing=s, quantum_gpu_s=64.0),
    "lif": lambda p, s: LeastInterferenceFirst(placer=p, sharing=s, skip_blocked=True),
    "load_balance": lambda p, s: LoadBalance(placer=p, sharing=s, skip_blocked=True),
    "sjf": lambda p, s: Sjf(placer=p, sharing=s, skip_blocked=True),
    "smallest_gang": lambda p, s: SmallestGang(placer=p, sharing=s, skip_blocked=True),
    "srtf": lambda p, s: Srtf(placer=p, sharing=s),
    "tetris": lambda p, s: Tetris(placer=p, sharing=s, skip_blocked=True),
}
PLACERS: dict[str, Callable[[], Placer]] = {
    "consolidated": Consolidated, "first_fit": FirstFit, "least_interference": LeastInterference,
    "least_loaded": LeastLoaded, "packed": Packed, "random": Random, "worst_fit": WorstFit,
}  # fmt: skip
SHARINGS: dict[str, Callable[[], Sharing]] = {
    "off": NoSharing, "always": AlwaysShare, "fallback": FallbackSharing,
    "selective": lambda: SelectiveSharing(threshold=1.2),
}  # fmt: skip
FORWARDINGS = {
    "least_loaded": LeastLoadedForwarding, "own": OwnOnly,
    "own_then_least_loaded": OwnThenLeastLoaded, "random": RandomForwarding, "steal": Steal,
}  # fmt: skip
