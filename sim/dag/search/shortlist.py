"""The GPUs whose load with a task would be nearest to what is hoped for."""

from sim.arrays import FloatArray, IntArray
from sim.dag.problem import DagArrays
from sim.jit import kernel

NEAREST = 16  # GPUs on a shortlist


@kernel
def nearest_gpus(
    dag: DagArrays, task: int, hope_s: float, load_s: FloatArray, gpus: IntArray, gap: FloatArray
) -> int:
    """Fill `gpus` and `gap` (at least NEAREST), nearest first; returns how many there are.

    Args:
        dag: the problem.
        task: its memory says which GPUs come into question.
        hope_s: the load that is hoped for, the task included.
        load_s: (g,) now, without the task.
        gpus: to fill.
        gap: to fill, |hope - load with the task|.
    """
    count = 0
    for here in range(len(load_s)):
        if dag.need[task] > dag.room[here]:
            continue
        away = abs(hope_s - (load_s[here] + dag.work[task] / dag.speed[here]))
        if count < NEAREST:
            count += 1
        elif away >= gap[count - 1]:
            continue
        place = count - 1
        while place > 0 and gap[place - 1] > away:
            gap[place] = gap[place - 1]
            gpus[place] = gpus[place - 1]
            place -= 1
        gap[place] = away
        gpus[place] = here
    return count
