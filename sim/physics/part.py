"""Jobs whose seconds between servers are worked out together."""

from typing import NamedTuple

import numpy as np

from sim.heap import HEAP
from sim.physics.link_rows import PART_ENTRY, PART_JOB, PART_LINK, RowArray


class Part(NamedTuple):
    """Room for N jobs with E entries on D directed links."""

    job: RowArray  # (N + 1,) PART_JOB
    entry: RowArray  # (E,) PART_ENTRY
    link: RowArray  # (D,) PART_LINK; its lists begin at row 0 and are no property of that link
    filling: RowArray  # (D,) HEAP: links with jobs still rising, by the rate that fills them
    due: RowArray  # (N + 1,) HEAP: rows of `job` by rate and batch at which they last stopped


def make_part(*, links: int, jobs: int, entries: int) -> Part:
    """Room for so many directed links, jobs and entries."""
    return Part(
        job=np.zeros(jobs + 1, dtype=PART_JOB),
        entry=np.zeros(max(1, entries), dtype=PART_ENTRY),
        link=np.zeros(max(1, links), dtype=PART_LINK),
        filling=np.zeros(max(1, links), dtype=HEAP),
        due=np.zeros(jobs + 1, dtype=HEAP),
    )
