"""Schemas: what `/decide` and `/state` take and answer, what a Kubernetes extender is sent."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sim.errors import GpuYardError

MOST_GPUS = 10_000_000
MOST_TIMES = 1_000_000
MOST_NAME = 256  # letters
MOST_S = 1e15
MOST_OF_HOST = 1e6  # cores or GiB for one GPU: a gang's sum is to fit in 64 bits

Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
Seconds = Annotated[float, Field(ge=-MOST_S, le=MOST_S)]
Span = Annotated[float, Field(ge=0.0, le=MOST_S)]
OfHost = Annotated[float, Field(ge=0.0, le=MOST_OF_HOST)]
Times = Annotated[int, Field(ge=0, le=MOST_TIMES)]
Row = Annotated[int, Field(ge=0, le=2**53)]


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
    gpu_types: list[Name] | None = Field(
        default=None, min_length=1, description="those that will do; null: any (GET /cluster)"
    )
    gpu_milli: int = Field(
        default=1000, ge=1, le=1000, description="thousandths of a GPU; below, others may share it"
    )
    cores_per_gpu: OfHost = Field(default=0.0, description="where the topology has cores")
    memory_gib_per_gpu: OfHost = Field(default=0.0, description="where the topology has memory")
    restarts: Times = Field(default=0, description="times that it lost its GPUs")
    forwards: Times = Field(default=0, description="times that it was handed to a partition")
    order: Row = Field(
        default=0,
        description="of those submitted at one time the lower came first; of equal ones who runs, "
        "then who stands first in its list",
    )


class WaitingJob(JobForm):
    """A job that waits for GPUs."""

    gpus: int = Field(ge=1, le=MOST_GPUS, description="how many it wants, all at once")
    submitted_s: Seconds = Field(description="on the same clock as time_s")
    ready_s: Seconds | None = Field(
        default=None, description="when it began to wait, its parents done; null: submitted_s"
    )
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
        default_factory=list,
        fail_fast=True,  # we tell one fault
        description="of those submitted at one time, and of one order, the first came first",
    )
    running: list[RunningJob] = Field(default_factory=list, fail_fast=True)
    away: list[Name] = Field(
        default_factory=list,
        fail_fast=True,
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
    impossible: dict[str, str] = Field(
        description="waiting jobs that can never start here, and why: they were left out"
    )
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


GPU_RESOURCE = "nvidia.com/gpu"
PREFIX = "gpuyard.dev/"
ESTIMATE_S = f"{PREFIX}estimate-s"  # predicted run time, seconds
PROFILE = f"{PREFIX}profile"  # model that it trains
PARTITION = f"{PREFIX}partition"  # where it waits
USER = f"{PREFIX}user"
SUBMITTED_S = f"{PREFIX}submitted-s"  # in place of creationTimestamp
GROUP = f"{PREFIX}group"  # pods of one gang, of one namespace
GROUP_SIZE = f"{PREFIX}group-size"  # how many pods, all alike
KNOWN = (ESTIMATE_S, PROFILE, PARTITION, USER, SUBMITTED_S, GROUP, GROUP_SIZE)
WHOLE = re.compile(r"[0-9]{1,9}")
MOST_SCORE = 10


class Loose(BaseModel):
    """Kubernetes objects hold much that we do not read."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Metadata(Loose):
    """Of a pod or node."""

    name: str = Field(min_length=1, max_length=MOST_NAME)
    namespace: str = Field(default="default", max_length=MOST_NAME)
    annotations: dict[str, str] | None = None
    creationTimestamp: str | None = None


class Resources(Loose):
    """Of a container."""

    limits: dict[str, str | int | float] | None = None


class Container(Loose):
    """Of a pod."""

    resources: Resources | None = None
    restartPolicy: str | None = None  # Always, of an init container: it goes on beside the others


class PodSpec(Loose):
    """What a pod asks for."""

    containers: list[Container] = Field(default_factory=list)
    initContainers: list[Container] | None = None


class Pod(Loose):
    """v1.Pod."""

    metadata: Metadata
    spec: PodSpec


class NodeList(BaseModel):
    """v1.NodeList, whose nodes are handed back as they came."""

    model_config = ConfigDict(extra="allow", frozen=True)

    items: list[dict[str, Any]]


class ExtenderArgs(Loose):
    """Exactly one of `Nodes` and `NodeNames` (nodeCacheCapable: true) is given."""

    Pod: Pod
    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None


class ExtenderFilterResult(BaseModel):
    """Nodes in the form in which they came."""

    Nodes: dict[str, Any] | None = None
    NodeNames: list[str] | None = None
    FailedNodes: dict[str, str] = Field(default_factory=dict)
    FailedAndUnresolvableNodes: dict[str, str] = Field(default_factory=dict)
    Error: str = ""


class HostPriority(BaseModel):
    """0 to 10, the best."""

    Host: str
    Score: int = Field(ge=0, le=MOST_SCORE)


@dataclass(frozen=True)
class Asked:
    """A pod as we read it."""

    pod: str  # namespace/name
    job: str  # the same, or of a gang namespace/group
    gpus: int  # of the pod
    pods: int  # of the gang; 1: a pod alone
    submitted_s: float | None
    estimate_s: float | None
    profile: str | None
    partition: int | None
    user: str | None


def candidates(args: ExtenderArgs) -> list[str]:
    """Names of the nodes that the pod may go to; RequestError: none or both lists, or no name."""
    if (args.Nodes is None) == (args.NodeNames is None):
        raise RequestError("give Nodes or NodeNames, one of the two")
    if args.NodeNames is not None:
        return args.NodeNames
    assert args.Nodes is not None
    names: list[str] = []
    for at, node in enumerate(args.Nodes.items):
        metadata = node.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str):
            raise RequestError(f"Nodes.items[{at}].metadata.name is missing")
        names.append(name)
    return names


def read(pod: Pod) -> Asked:
    """What a pod says of itself; RequestError names annotation or resource, value and fix."""
    meta = pod.metadata
    name, annotations = f"{meta.namespace}/{meta.name}", meta.annotations or {}
    unknown = [key for key in annotations if key.startswith(PREFIX) and key not in KNOWN]
    if unknown:
        raise RequestError(
            f"pod {name}: annotation {unknown[0]} is unknown; there are {', '.join(KNOWN)}"
        )
    group, pods = annotations.get(GROUP), _count(annotations, GROUP_SIZE, name)
    if (not group) != (pods is None):
        raise RequestError(f"pod {name}: give {GROUP} and {GROUP_SIZE}, or neither")
    submitted_s = _number(annotations, SUBMITTED_S, name, least=-MOST_S)
    if submitted_s is None and meta.creationTimestamp is not None:
        try:
            submitted_s = datetime.fromisoformat(meta.creationTimestamp).timestamp()
        except ValueError as error:
            raise RequestError(
                f"pod {name}: creationTimestamp is {meta.creationTimestamp!r}; it must be like "
                "2026-01-31T12:00:00Z"
            ) from error
    return Asked(
        pod=name,
        job=f"{meta.namespace}/{group}" if group else name,
        gpus=_gpus(pod.spec, name),
        pods=1 if pods is None else pods,
        submitted_s=submitted_s,
        estimate_s=_number(annotations, ESTIMATE_S, name, least=0.0),
        profile=annotations.get(PROFILE),
        partition=_count(annotations, PARTITION, name, least=0),
        user=annotations.get(USER),
    )


def _gpus(spec: PodSpec, name: str) -> int:
    """Containers run together, init containers before them one by one; sidecars stay."""
    most = sidecars = 0
    for each in spec.initContainers or ():
        most = max(most, sidecars + _limit(each, name))
        if each.restartPolicy == "Always":
            sidecars += _limit(each, name)
    return max(most, sidecars + sum(_limit(each, name) for each in spec.containers))


def _limit(container: Container, name: str) -> int:
    limits = (container.resources.limits if container.resources else None) or {}
    value = str(limits.get(GPU_RESOURCE, 0))
    if not WHOLE.fullmatch(value) or int(value) > MOST_GPUS:
        raise RequestError(
            f"pod {name}: limits['{GPU_RESOURCE}'] is {value!r}; it must be a whole number"
        )
    return int(value)


def _count(annotations: dict[str, str], key: str, name: str, least: int = 1) -> int | None:
    value = annotations.get(key)
    if value is None:
        return None
    if not WHOLE.fullmatch(value) or int(value) < least:
        raise RequestError(
            f"pod {name}: {key} is {value!r}; it must be a whole number from {least}, of 9 digits "
            "at most"
        )
    return int(value)


def _number(annotations: dict[str, str], key: str, name: str, least: float) -> float | None:
    value = annotations.get(key)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number <= MOST_S:
        raise RequestError(f"pod {name}: {key} is {value!r}; it must be a number of seconds")
    return number
