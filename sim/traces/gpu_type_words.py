"""GPU types as traces name them, against the types that a cluster has."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.arrays import IntArray, TextArray
from sim.errors import TraceError
from sim.traces.column_map import nearest
from sim.traits import ANY_TYPE

log = logging.getLogger(__name__)

ERROR, ANY = "error", "any"
UNKNOWN = (ERROR, ANY)  # what to do with a job none of whose GPU types the cluster has


@dataclass(frozen=True)
class TypeWords:
    """Turns allowed types such as "P100|T4" into bit masks."""

    known: tuple[str, ...]  # GPU types of the topology; bit t is known[t]
    names: Mapping[str, str]  # the trace's name -> the topology's, where it has none of that name
    unknown: str  # ERROR, or ANY: such a job may run anywhere

    def masks(self, job_id: TextArray, gpu_types: TextArray) -> IntArray:
        """(J,) bit masks; types that the cluster lacks are left out of a job's list.

        Raises:
            TraceError: naming the first job whose types the cluster lacks altogether.
        """
        of_text = {text: self._mask(str(text)) for text in dict.fromkeys(gpu_types)}
        found = [of_text[text] for text in gpu_types]
        missing = np.array([mask is None for mask in found], dtype=np.bool_)
        if missing.any():
            row = int(np.argmax(missing))
            if self.unknown == ERROR:
                raise TraceError(self._told(str(job_id[row]), str(gpu_types[row])))
            log.warning(
                "%d jobs ask for GPU types that the cluster lacks (the first: job %s, %s) and may "
                "run on any", int(missing.sum()), job_id[row], gpu_types[row],
            )  # fmt: skip
        return np.array([ANY_TYPE if mask is None else mask for mask in found], dtype=np.int64)

    def _mask(self, text: str) -> int | None:
        """Bits of the types in `text`; None if the cluster has none of them."""
        if not text:
            return ANY_TYPE
        bits = [self._bit(word) for word in text.split("|")]
        mask = 0
        for bit in bits:
            mask |= 0 if bit is None else 1 << bit
        return mask or None

    def _bit(self, word: str) -> int | None:
        """The type of that very name, else the one that `names` gives for it."""
        lower = [name.lower() for name in self.known]
        for wanted in (word.lower(), self.names.get(word, word).lower()):
            if wanted in lower:
                return lower.index(wanted)
        return None

    def _told(self, job: str, text: str) -> str:
        known = ", ".join(self.known) or "none named"
        first = text.split("|")[0]
        return (
            f"job {job}: gpu_types is {text!r}{nearest(first, self.known)}; the cluster has "
            f"{known}; say which type it is with "
            f"+workload.rules.gpu_type_names.{first}=TYPE, or let such jobs run anywhere with "
            f" workload.rules.unknown_gpu_types=any"
        )
