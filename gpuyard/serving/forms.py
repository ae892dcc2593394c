"""What `/decide` and `/state` take and answer, as pydantic models: the documented schema."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from sim.errors import GpuYardError

MOST_GPUS = 10_000_000
MOST_TIMES = 1_000_000
MOST_NAME = 256  # letters
MOST_S = 1e15

Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
Seconds = Annotated[float, Field(ge=-MOST_S, le=MOST_S)]
Span = Annotated[float, Field(ge=0.0, le=MOST_S)]
Times = Annotated[int, Field(ge=0, le=MOST_TIMES)]


class RequestError(GpuYardError):
    """A request that cannot be answered; the message names the field or job, and the fix."""


class Form(BaseModel):
    """Keys that nobody reads are refused, and no text is taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class JobForm(Form):
    """What waiting and running jobs have in common."""

    id: Name
    estimate_s: Span | None = Field(
        default=None,
        description="predicted run time in seconds on the most compact exclusive placement on the "
        "reference GPU type; null: not known",
    )
    profile: Name | None = Field(
        default=None, description="model that it trains, a name of GET /cluster; null: not known"
    )
    user: Name | None = Field(default=None, description="for schedulers fair between users")
    attained_gpu_s: Span | None = Field(
        default=None,
        description="GPU seconds of service so far; null: none before the attempt that runs",
    )
    restarts: Times = Field(default=0, description="times that it lost its GPUs")
    forwards: Times = Field(default=0, description="times that it was handed to a partition")


class WaitingJob(JobForm):
    """A job that waits for GPUs."""

    gpus: int = Field(ge=1, le=MOST_GPUS, description="how many it wants, all at once")
    submitted_s: Seconds = Field(description="on the same clock as time_s")
    partition: int | None = Field(
        default=None, ge=0, description="where it waits; may be null where there is but one"
    )
    progress_s: Span = Field(default=0.0, description="seconds of its work that are done and kept")


class RunningJob(JobForm):
    """A job that holds GPUs; those that share a GPU stand in order of their start."""

    placement: list[int] | None = Field(
        default=None, min_length=1, description="its GPUs, by the numbers of GET /cluster"
    )
    servers: dict[Name, Annotated[int, Field(ge=1, le=MOST_GPUS)]] | None = Field(
        default=None,
        min_length=1,
        description="in place of placement, how many GPUs on which server: the first ones there "
        "that nobody holds",
    )
    started_s: Seconds
    resume_s: Seconds | None = Field(
        default=None,
        description="when it began, or after a restart begins, to make progress; null: started_s",
    )
    submitted_s: Seconds | None = Field(default=None, description="null: started_s")
    progress_s: Span | None = Field(
        default=None,
        description="seconds of its work that are done; null: what its present speed makes since "
        "resume_s",
    )


class StateForm(Form):
    """A cluster at one instant."""

    time_s: Seconds = Field(description="now, on any clock; 0 may lie anywhere")
    queue: list[WaitingJob] = Field(
        default_factory=list, description="of those submitted at one time the first came first"
    )
    running: list[RunningJob] = Field(default_factory=list)
    away: list[Name] = Field(
        default_factory=list,
        description="servers that take nobody new (drained or down); who runs there stays",
    )


class DecisionForm(BaseModel):
    """One order. `turn` counts the times that the scheduler was asked at this instant."""

    action: Literal["start", "preempt", "forward"]
    job: str
    turn: int
    gpus: list[int] | None = Field(default=None, description="of a start: these, in this order")
    servers: dict[str, int] | None = Field(default=None, description="how many of them where")
    lease_s: float | None = Field(default=None, description="of a start: to be given back then")
    partition: int | None = Field(default=None, description="of a forward: to there")


class AssumedForm(BaseModel):
    """How many jobs were given what the request left out."""

    estimate_s: int
    profile: int


class AnswerForm(BaseModel):
    """Orders to be carried out one after the other; who is in none of them goes on as before."""

    scheduler: str
    time_s: float
    decisions: list[DecisionForm]
    waiting: list[str] = Field(description="jobs that wait after these orders")
    ask_again_s: float | None = Field(
        description="ask then even if nothing happens; null: at the next arrival or end of a job"
    )
    turns: int = Field(description="times that the scheduler was asked")
    assumed: AssumedForm


class ServerForm(BaseModel):
    """One server and the numbers of its GPUs: first_gpu to first_gpu + gpus - 1."""

    name: str
    first_gpu: int
    gpus: int
    gpu_type: str
    rack: int
    partition: int


class ClusterForm(BaseModel):
    """What this service decides for, and with."""

    scheduler: str
    needs: list[str] = Field(description="what it reads of jobs beyond the queue and their sizes")
    signals: list[str] = Field(description="the same in the simulator's words")
    topology: str
    gpus: int
    partitions: int
    max_tenants: int
    seed: int
    profiles: list[str]
    servers: list[ServerForm]


class ErrorForm(BaseModel):
    """Why there is no answer, in words that name the field or job and the fix."""

    error: str
