"""Words for the kernel's verdicts on an illegal decision."""

from sim.errors import InvalidDecision
from sim.jobs import JobTable
from sim.kernel import apply as verdicts
from sim.kernel.state import NOW_S, State

STATUS = ("not arrived yet", "waiting", "running", "finished")


def refusal(verdict: int, job: int, what: int, state: State, jobs: JobTable) -> InvalidDecision:
    """The error for one verdict: names job, GPU or partition, holder and time."""
    when = f"at t={state.clock[NOW_S]:.1f} s"
    if verdict == verdicts.NO_SUCH_JOB:
        return InvalidDecision(f"there is no job row {job} (rows 0 to {len(jobs) - 1}) {when}")
    if verdict == verdicts.PAST_WAKE:
        return InvalidDecision(f"wake_s is not after now, {when}; ask for a later time or None")
    who = f"job {jobs.job_id[job]} (row {job})"
    return InvalidDecision(f"{who}: {_reason(verdict, job, what, state)} {when}")


def _reason(verdict: int, job: int, what: int, state: State) -> str:
    if verdict in (verdicts.NOT_RUNNING, verdicts.NOT_QUEUED):
        wanted = "running" if verdict == verdicts.NOT_RUNNING else "waiting"
        return f"must be {wanted}, but is {STATUS[state.status[job]]}"
    if verdict == verdicts.NO_SUCH_PARTITION:
        last = int(state.server_partition.max())
        return (
            f"cannot be forwarded from partition {state.partition[job]} to {what}; "
            f"choose another of 0 to {last}"
        )
    if verdict == verdicts.TOO_MANY_FORWARDS:
        return f"was forwarded {state.forwards[job]} times, the most agents.max_forwards allows"
    if verdict == verdicts.FORWARDED_TWICE:
        return f"is forwarded twice in one decision, the second time to partition {what}"
    if verdict == verdicts.WRONG_GANG:
        return f"needs {state.num_gpus[job]} GPUs, the decision names {what}"
    return _gpu_reason(verdict, job, what, state)


def _gpu_reason(verdict: int, job: int, gpu: int, state: State) -> str:
    if verdict == verdicts.NO_SUCH_GPU:
        return f"there is no GPU {gpu} (GPUs 0 to {len(state.gpu_server) - 1})"
    if verdict == verdicts.GPU_TWICE:
        return f"GPU {gpu} is named twice"
    if verdict == verdicts.FOREIGN_GPU:
        owner = state.server_partition[state.gpu_server[gpu]]
        return (
            f"GPU {gpu} belongs to partition {owner}, the job to {state.partition[job]}; "
            "forward it first"
        )
    holders = ", ".join(str(j) for j in state.tenant[gpu, : state.tenants[gpu]])
    if verdict == verdicts.GPU_FULL:
        return (
            f"GPU {gpu} is held by job rows {holders}, and max_tenants is {state.tenant.shape[1]}"
        )
    return f"does not fit in the memory of GPU {gpu} beside job rows {holders}"
