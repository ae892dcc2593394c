"""Every rule there is, by name, for tests that try all of them."""

from collections.abc import Callable

from sim import forwarding
from sim.engine.composed import QueueScheduler
from sim.placers import by_room
from sim.protocols import Placer, Sharing
from sim.schedulers import orders
from sim.sharing import AlwaysShare, FallbackSharing, NoSharing, SelectiveSharing

Make = Callable[[Placer, Sharing], QueueScheduler]

ORDERS: dict[str, Make] = {
    "fifo": lambda p, s: orders.Fifo(placer=p, sharing=s, skip_blocked=False),
    "fifo_skip": lambda p, s: orders.Fifo(placer=p, sharing=s, skip_blocked=True),
    "las": lambda p, s: orders.Las(placer=p, sharing=s, quantum_gpu_s=64.0),
    "lif": lambda p, s: orders.LeastInterferenceFirst(placer=p, sharing=s, skip_blocked=True),
    "load_balance": lambda p, s: orders.LoadBalance(placer=p, sharing=s, skip_blocked=True),
    "sjf": lambda p, s: orders.Sjf(placer=p, sharing=s, skip_blocked=True),
    "smallest_gang": lambda p, s: orders.SmallestGang(placer=p, sharing=s, skip_blocked=True),
    "srtf": lambda p, s: orders.Srtf(placer=p, sharing=s),
    "tetris": lambda p, s: orders.Tetris(placer=p, sharing=s, skip_blocked=True),
}
PLACERS: dict[str, Callable[[], Placer]] = {
    "consolidated": by_room.Consolidated,
    "first_fit": by_room.FirstFit,
    "least_interference": by_room.LeastInterference,
    "least_loaded": by_room.LeastLoaded,
    "packed": by_room.Packed,
    "random": by_room.Random,
    "worst_fit": by_room.WorstFit,
}
SHARINGS: dict[str, Callable[[], Sharing]] = {
    "off": NoSharing, "always": AlwaysShare, "fallback": FallbackSharing,
    "selective": lambda: SelectiveSharing(threshold=1.2),
}  # fmt: skip
FORWARDINGS = {
    "least_loaded": forwarding.LeastLoadedForwarding,
    "own": forwarding.OwnOnly,
    "own_then_least_loaded": forwarding.OwnThenLeastLoaded,
    "random": forwarding.RandomForwarding,
    "steal": forwarding.Steal,
}
