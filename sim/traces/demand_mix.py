"""What generated workers ask for beside a GPU: a share of one, cores, memory, a GPU type."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from sim.arrays import IntArray, TextArray
from sim.traces.draws import choose, texts
from sim.traces.spec_rules import check_choice, check_spec
from sim.traits import WHOLE_GPU_MILLI

MILLI = 1000.0
MEMORY_STEP_MIB = 256
LEAST_CPU_MILLI, LEAST_MEMORY_MIB = 100, MEMORY_STEP_MIB


@dataclass(frozen=True, kw_only=True)
class DemandMix:
    """Demands of each worker; those of the runs of one group are equal."""

    gpu_milli: Sequence[int]  # (M,) of jobs with one worker; gangs take whole GPUs
    gpu_milli_probs: Sequence[float]  # (M,) they sum to 1 (within a rounding of 1 %)
    cores_ln_mu: float  # cores a worker are log-normal, in ln cores
    cores_ln_sigma: float
    mib_a_core_ln_mu: float  # memory is log-normal a core, in ln MiB
    mib_a_core_ln_sigma: float
    most_cores: float
    most_memory_mib: float
    gpu_types: Sequence[str]  # (T,) "P100|T4"; "" is any
    gpu_type_probs: Sequence[float]  # (T,) they sum to 1

    def __post_init__(self) -> None:
        """Check lengths and ranges.

        Raises:
            TraceError: naming the key, the value and the rule.
        """
        check_choice("demands.gpu_milli", self.gpu_milli, self.gpu_milli_probs)
        check_choice("demands.gpu_types", self.gpu_types, self.gpu_type_probs)
        fits = min(self.gpu_milli) >= 1 and max(self.gpu_milli) <= WHOLE_GPU_MILLI
        check_spec("demands.gpu_milli", list(self.gpu_milli), fits, "must lie between 1 and 1000")
        for key in ("cores_ln_mu", "cores_ln_sigma", "mib_a_core_ln_mu", "mib_a_core_ln_sigma"):
            value = getattr(self, key)
            legal = bool(np.isfinite(value)) and (value >= 0 or not key.endswith("sigma"))
            check_spec(f"demands.{key}", value, legal, "must be finite, a sigma 0 or more")
        check_spec("demands.most_cores", self.most_cores, 1 <= self.most_cores < np.inf,
                   "must be at least 1")  # fmt: skip
        check_spec("demands.most_memory_mib", self.most_memory_mib,
                   LEAST_MEMORY_MIB <= self.most_memory_mib < np.inf,
                   f"must be at least {LEAST_MEMORY_MIB}")  # fmt: skip


class DemandColumns(TypedDict):
    """Columns of a trace."""

    gpu_milli: IntArray
    cpu_milli: IntArray
    memory_mib: IntArray
    gpu_types: TextArray


def draw_demands(mix: DemandMix, num_gpus: IntArray, rng: np.random.Generator) -> DemandColumns:
    """The trace's demand columns of L jobs; five draws a job."""
    count = len(num_gpus)
    milli = np.asarray(mix.gpu_milli, dtype=np.int64)[choose(mix.gpu_milli_probs, count, rng)]
    cores = np.exp(mix.cores_ln_mu + mix.cores_ln_sigma * rng.standard_normal(count))
    cores = np.clip(cores, LEAST_CPU_MILLI / MILLI, mix.most_cores)
    a_core = np.exp(mix.mib_a_core_ln_mu + mix.mib_a_core_ln_sigma * rng.standard_normal(count))
    steps = np.rint(cores * a_core / MEMORY_STEP_MIB) * MEMORY_STEP_MIB
    kind = choose(mix.gpu_type_probs, count, rng)
    return DemandColumns(
        gpu_milli=np.where(num_gpus == 1, milli, WHOLE_GPU_MILLI),
        cpu_milli=(np.rint(cores * 10) * 100).astype(np.int64),
        memory_mib=np.clip(steps, LEAST_MEMORY_MIB, mix.most_memory_mib).astype(np.int64),
        gpu_types=texts([mix.gpu_types[each] for each in kind]),
    )
