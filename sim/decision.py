"""What a scheduler may order: starts, preemptions, forwards, and when to be asked again.

And words for the verdicts of the kernel: an illegal decision, jobs that wait for ever or never end.
"""

from dataclasses import dataclass

import numpy as np

from sim.arrays import IntArray
from sim.errors import EndlessRun, InvalidDecision, SimulationError, amount
from sim.jobs import JobTable
from sim.kernel import step as verdicts
from sim.kernel.layout import BLOCKED, QUEUED, RUNNING, State


@dataclass(frozen=True)
class Start:
    """Start `job` (row of the job table) on `gpus`: distinct GPU ids, as many as its gang.

    An elastic job may get any number of GPUs between its least and its most. With a lease the job
    queues again after `lease_s`, its work kept; started at that instant on the same GPUs in the
    same order, it goes on at no cost.
    """

    job: int
    gpus: IntArray  # (num_gpus,)
    lease_s: float | None = None


@dataclass(frozen=True)
class Forward:
    """Hand the waiting `job` to `partition`."""

    job: int
    partition: int


@dataclass(frozen=True)
class Decision:
    """Orders for one instant, applied in this order: preempts, forwards, starts.

    Migration is a preemption and a start of the same job. `wake_s` is the absolute time at which
    the scheduler wants to be asked even if nothing happens; None means it does not. With `again`
    the scheduler is asked once more at this instant, after these orders took effect.
    """

    starts: tuple[Start, ...] = ()
    preempts: tuple[int, ...] = ()
    forwards: tuple[Forward, ...] = ()
    wake_s: float | None = None
    again: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is ordered."""
        return not (self.starts or self.preempts or self.forwards)


WAIT = Decision()
MOST_TURNS = 100_000  # of a scheduler at one instant


STATUS = ("not arrived yet", "waiting", "running", "finished", "withdrawn", "blocked by a parent")


def refusal(verdict: int, job: int, what: int, state: State, jobs: JobTable) -> InvalidDecision:
    """The error for one verdict: names job, GPU or partition, holder and time."""
    when = f"at t={state.world['now_s'][0]:.1f} s"
    if verdict == verdicts.NO_SUCH_JOB:
        return InvalidDecision(f"there is no job row {job} (rows 0 to {len(jobs) - 1}) {when}")
    if verdict == verdicts.PAST_WAKE:
        return InvalidDecision(f"wake_s is not after now, {when}; ask for a later time or None")
    who = f"job {jobs.job_id[job]} (row {job})"
    return InvalidDecision(f"{who}: {_reason(verdict, job, what, state)} {when}")


def stuck(state: State, jobs: JobTable) -> SimulationError:
    """The error for jobs that would wait for ever: names the first of them."""
    world = state.world[0]
    now_s, waiting = float(world["now_s"]), int(world["num_queued"])
    if waiting == 0:
        blocked = int(np.flatnonzero(state.job["status"] == BLOCKED)[0])
        return SimulationError(
            f"job {jobs.job_id[blocked]} waits forever from t={now_s:.1f} s on for parents that "
            "wait for it; cut that circle"
        )
    job = int(state.queue[world["queue_first"]])
    home, gang = int(state.job[job]["partition"]), int(jobs.num_gpus[job])
    size = int(state.partition[home]["gpus"])
    fix = "does it fit there, and may it be forwarded?"
    if gang > size:
        all_of = amount(size, "GPU")
        fix = f"that has {all_of} in all, so let it go elsewhere, as by forwarding=steal."
    away = int(np.count_nonzero(state.server["closed"] > 0))
    note = f" Away for good: {amount(away, 'server')}." if away else ""
    return SimulationError(
        f"{amount(waiting, 'job')} {'waits' if waiting == 1 else 'wait'} forever from "
        f"t={now_s:.1f} s on: nothing runs, nothing arrives, and the scheduler starts none. The "
        f"first is job {jobs.job_id[job]} ({amount(gang, 'GPU')}) in partition {home}; {fix}{note}"
    )


def check_turns(scheduler: str, turns: int) -> None:
    """Raise EndlessRun for a scheduler that asks to be asked again without end."""
    if turns >= MOST_TURNS:
        raise EndlessRun(
            f"{scheduler} has been asked {turns} times at one instant and asks for more; give "
            "again=False once nothing is left to order"
        )


def endless(state: State, jobs: JobTable, since_s: float) -> EndlessRun:
    """The error for jobs that start and stop for ever: names the one that stopped most."""
    here = np.isin(state.job["status"], (QUEUED, RUNNING))
    job = int(np.argmax(np.where(here, state.job["restarts"], -1)))
    now_s, stops = float(state.world["now_s"][0]), int(state.job[job]["restarts"])
    kept_s = float(state.world["checkpoint_work_s"][0])
    every_s = f"{kept_s:g}" if np.isfinite(kept_s) else "null"
    return EndlessRun(
        f"no job has arrived, ended or kept work from t={since_s:.1f} s to t={now_s:.1f} s, yet "
        f"they start and stop without end: job {jobs.job_id[job]} has lost its GPUs {stops} times. "
        "Let jobs keep their work (preempt_saves=true, or a checkpoint_work_s below what it is, "
        f"{every_s}), or give the scheduler a quantum or lease longer than a restart"
    )


def _reason(verdict: int, job: int, what: int, state: State) -> str:
    row = state.job[job]
    least, most = int(row["least_gpus"]), int(row["most_gpus"])
    needs = amount(least, "GPU") if least == most else f"{least} to {most} GPUs"
    words = {
        verdicts.NOT_RUNNING: f"must be running, but is {STATUS[row['status']]}",
        verdicts.NOT_QUEUED: f"must be waiting, but is {STATUS[row['status']]}",
        verdicts.NO_SUCH_PARTITION: f"cannot be forwarded from partition {row['partition']} to "
        f"{what}; choose another of 0 to {int(state.world['num_partitions'][0]) - 1}",
        verdicts.TOO_MANY_FORWARDS: f"was forwarded {row['forwards']} times, the most "
        "agents.max_forwards allows",
        verdicts.FORWARDED_TWICE: "is forwarded twice in one decision, the second time to "
        f"partition {what}",
        verdicts.STARTED_TWICE: "is started twice in one decision; name it once",
        verdicts.PREEMPTED_TWICE: "is preempted twice in one decision; name it once",
        verdicts.WRONG_GANG: f"needs {needs}, the decision names {what}",
        verdicts.PAST_LEASE: "gets a lease that does not end after now; give a longer one or None",
    }
    return words[verdict] if verdict in words else _gpu_reason(verdict, job, what, state)


def _gpu_reason(verdict: int, job: int, gpu: int, state: State) -> str:
    if verdict == verdicts.NO_SUCH_GPU:
        return f"there is no GPU {gpu} (GPUs 0 to {len(state.gpu) - 1})"
    if verdict == verdicts.GPU_TWICE:
        return f"GPU {gpu} is named twice"
    if verdict == verdicts.FOREIGN_GPU:
        owner = state.server[state.gpu[gpu]["server"]]["partition"]
        return (
            f"GPU {gpu} belongs to partition {owner}, the job to {state.job[job]['partition']}; "
            "forward it first"
        )
    if verdict in (verdicts.SERVER_AWAY, verdicts.WRONG_TYPE, verdicts.NO_CORES,
                   verdicts.NO_MEMORY):  # fmt: skip
        return _server_reason(verdict, job, gpu, state)
    holders = ", ".join(str(j) for j in state.tenant[gpu, : state.gpu[gpu]["tenants"]])
    if verdict == verdicts.GPU_FULL:
        return (
            f"GPU {gpu} is held by job rows {holders} with {state.gpu[gpu]['milli']} thousandths; "
            f"max_tenants is {state.tenant.shape[1]}, and together they may ask for "
            f"{state.world['gpu_limit_milli'][0]}"
        )
    return f"does not fit in the memory of GPU {gpu} beside job rows {holders}"


def _server_reason(verdict: int, job: int, gpu: int, state: State) -> str:
    server, row = int(state.gpu[gpu]["server"]), state.job[job]
    where = state.server[server]
    if verdict == verdicts.SERVER_AWAY:
        return f"GPU {gpu} is on server {server}, which is away"
    if verdict == verdicts.WRONG_TYPE:
        return f"GPU {gpu} is of type {where['gpu_type']}, which the job does not accept"
    if verdict == verdicts.NO_CORES:
        return (
            f"its workers need {row['cpu_milli']} thousandths of a core each, server {server} "
            f"of GPU {gpu} has {where['cpu_free_milli']} free"
        )
    return (
        f"its workers need {row['memory_mib']} MiB each, server {server} of GPU {gpu} has "
        f"{where['memory_free_mib']} free"
    )
