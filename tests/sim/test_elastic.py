"""An elastic order as a user would write it: everybody present gets an equal share of the GPUs."""

import numpy as np

from sim.decision import Decision, Start
from sim.jobs import Elastic
from sim.view import ClusterView, Signal
from tests.sim.worlds import Job, chart, charted, cluster, play, world


class EqualShares:
    """Whenever somebody comes or goes, gangs are resized to equal shares, within their limits.

    Jobs are served in order of rows; one whose least is more than what is left waits.
    """

    name = "equal_shares"
    needs = Signal.NONE

    def reset(self, seed: int) -> None:
        del seed

    def decide(self, view: ClusterView) -> Decision:
        present = sorted([*view.queued.tolist(), *view.running.tolist()])
        sizes = self._sizes(view, present)
        resized = [job for job in view.running.tolist() if sizes[job] != view.jobs.held[job]]
        free = set(range(view.topology.num_gpus))
        for job in set(view.running.tolist()) - set(resized):
            free -= set(view.gpus_of(job).tolist())
        starts = []
        for job in present:
            if sizes[job] and (job in resized or job in view.queued):
                gpus = sorted(free)[: sizes[job]]
                free -= set(gpus)
                starts.append(Start(job, np.array(gpus)))
        return Decision(starts=tuple(starts), preempts=tuple(resized))

    def _sizes(self, view: ClusterView, present: list[int]) -> dict[int, int]:
        elastic, sizes = view.jobs.elastic, dict.fromkeys(present, 0)
        left = view.topology.num_gpus
        for job in present:
            if elastic.least_gpus[job] <= left:
                sizes[job] = int(elastic.least_gpus[job])
                left -= sizes[job]
        while left > 0:
            growing = [j for j in present if 0 < sizes[j] < elastic.most_gpus[j]]
            if not growing:
                break
            sizes[min(growing, key=lambda j: sizes[j])] += 1
            left -= 1
        return sizes


def test_a_newcomer_takes_half_and_gives_it_back():
    # 4 GPUs, no communication: n GPUs do n / gang of the work a second. A (gang 2, 12 s, 24
    # GPU-seconds) has all 4 until 2; from then on A and B 2 each. B (gang 2, 3 s) is over at 5.
    # A has done 2 * 2 + 3 * 1 = 7 of its 12 by then; nobody asks, since nobody waits: on with 2.
    traits = {"elastic": Elastic(np.array([1, 1]), np.array([4, 4]))}
    yard = world([Job(0, 2, 12), Job(2, 2, 3)], cluster(1, 4), traits=traits)
    run = play(yard, EqualShares())
    assert chart(run) == "AaAaaaaaaa*2 AaBbb*2"
    assert run.run_gpu_s.tolist() == [8 + 16, 6]


def test_limits_are_kept_and_restarts_paid():
    # A runs on 3 to 5 GPUs, B on 2 only. A has all 4 (speed 1) until B comes at 1 and waits, for
    # A's least leaves 1. C, 1 GPU, comes at 2: A shrinks to 3 and restarts for 1 s. Of its 5 s 3
    # are left: at speed 3/4 from 3 on they take 4 s, till 7. C (5 s) ends then, too, and B starts.
    traits = {"elastic": Elastic(np.array([3, 2, 1]), np.array([5, 2, 1]))}
    jobs = [Job(0, 4, 5), Job(1, 2, 3), Job(2, 1, 5)]
    found = charted(jobs, cluster(1, 4), EqualShares(), traits=traits, restart_s=1.0)
    assert found == "AaAaaaaBbb*2 AaAaaaa AaCcccc"
