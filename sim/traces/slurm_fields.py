"""Fields of Slurm's accounting as `sacct` prints them (after its manual pages, 17.11 to 24.11)."""

import re
from dataclasses import dataclass
from functools import cache

from sim.traits import CANCELLED, COMPLETED, FAILED

NO_TIME = ("", "Unknown", "None", "N/A")
NO_LIMIT = ("", "UNLIMITED", "Partition_Limit")
JOB_ID = re.compile(r"\d+(?:_(?:\d+|(?P<tasks>\[.*\])))?(?:\+\d+)?(?P<step>\..+)?", re.ASCII)
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)", re.ASCII)  # in MiB without a unit
GPU, GPU_OF_TYPE = "gres/gpu", "gres/gpu:"
PARTS_OF_GPUS = ("gres/shard", "gres/mps")
READ = ("cpu", "mem", GPU, *PARTS_OF_GPUS)
MOST = 2.0**31  # GPUs; more are refused
MIB = {"": 1.0, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30, "E": 2.0**40}
ENDED = {
    "COMPLETED": COMPLETED, "CANCELLED": CANCELLED, "FAILED": FAILED, "TIMEOUT": FAILED,
    "NODE_FAIL": FAILED, "OUT_OF_MEMORY": FAILED, "BOOT_FAIL": FAILED, "DEADLINE": FAILED,
    "PREEMPTED": FAILED, "LAUNCH_FAILED": FAILED, "RECONFIG_FAIL": FAILED,
}  # fmt: skip
RUNNING = ("RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "CONFIGURING", "SIGNALING",
           "STAGE_OUT", "RESIZING", "POWER_UP_NODE", "UPDATE_DB")  # fmt: skip
WAITING = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
ELSEWHERE = "REVOKED"  # a twin of this job ran in another cluster of the federation
# What it is worth if it is the last that is known of the job; one that runs has not failed.
STATES = {**ENDED, **dict.fromkeys((*RUNNING, *WAITING, ELSEWHERE), COMPLETED)}


@dataclass(frozen=True)
class Tres:
    """Trackable resources of a job, over all its nodes."""

    gpus: int = 0
    types: tuple[str, ...] = ()  # of its GPUs, where the list names some
    cpus: float = 0.0
    memory_mib: float = 0.0
    only_parts: bool = False  # of GPUs: shards or MPS shares, and no GPU


@cache
def parse_tres(text: str) -> Tres | None:
    """A list such as `billing=8,cpu=16,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1`; None: no list.

    `gres/gpu` counts all GPUs, and what stands behind a type is a part of it: a cluster that tracks
    both prints both. One that tracks types only prints no sum.
    """
    found: dict[str, float] = {}
    for entry in text.split(",") if text else ():
        name, sign, amount = entry.partition("=")
        if not sign:
            return None
        if name in READ or name.startswith(GPU_OF_TYPE):
            value = _mib(amount) if name == "mem" else _whole(amount)
            if value is None:
                return None
            found[name] = value
    of_type = {name.removeprefix(GPU_OF_TYPE): amount for name, amount in found.items()
               if name.startswith(GPU_OF_TYPE) and amount > 0}  # fmt: skip
    gpus = found.get(GPU, sum(of_type.values()))
    return Tres(
        gpus=int(min(gpus, MOST)),
        types=tuple(of_type),
        cpus=found.get("cpu", 0.0),
        memory_mib=found.get("mem", 0.0),
        only_parts=gpus == 0 and any(found.get(name) for name in PARTS_OF_GPUS),
    )


def _whole(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None


def _mib(text: str) -> float | None:
    match = AMOUNT.fullmatch(text)
    return None if match is None else float(match[1]) * MIB[match[2]]


def state_of(text: str) -> str:
    """The state without what follows: `CANCELLED by 1000`, `CANCELLED+`."""
    return text.partition(" ")[0].removesuffix("+").upper()
