"""What a Kubernetes scheduler sends to an extender and gets back, and what we read of a pod."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gpuyard.serving.forms import MOST_GPUS, MOST_NAME, MOST_S, RequestError

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
WHOLE = re.compile(r"\d{1,9}")
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
    """Names of the nodes that the pod may go to.

    Raises:
        RequestError: none or both lists are given, or a node has no name.
    """
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
    """What a pod says of itself.

    Raises:
        RequestError: naming the annotation or resource, its value and the fix.
    """
    meta = pod.metadata
    name, told = f"{meta.namespace}/{meta.name}", meta.annotations or {}
    unknown = [key for key in told if key.startswith(PREFIX) and key not in KNOWN]
    if unknown:
        raise RequestError(
            f"pod {name}: annotation {unknown[0]} is unknown; there are {', '.join(KNOWN)}"
        )
    group, pods = told.get(GROUP), _count(told, GROUP_SIZE, name)
    if (group is None) != (pods is None):
        raise RequestError(f"pod {name}: give {GROUP} and {GROUP_SIZE}, or neither")
    submitted_s = _number(told, SUBMITTED_S, name, least=-MOST_S)
    if submitted_s is None and meta.creationTimestamp is not None:
        submitted_s = _moment_s(meta.creationTimestamp, name)
    return Asked(
        pod=name,
        job=name if group is None else f"{meta.namespace}/{group}",
        gpus=_gpus(pod.spec, name),
        pods=1 if pods is None else pods,
        submitted_s=submitted_s,
        estimate_s=_number(told, ESTIMATE_S, name, least=0.0),
        profile=told.get(PROFILE),
        partition=_count(told, PARTITION, name, least=0),
        user=told.get(USER),
    )


def _gpus(spec: PodSpec, name: str) -> int:
    """Containers run together, init containers before them one by one."""
    together = sum(_limit(each, name) for each in spec.containers)
    return max([together, *(_limit(each, name) for each in spec.initContainers or [])])


def _limit(container: Container, name: str) -> int:
    limits = (container.resources.limits if container.resources else None) or {}
    value = str(limits.get(GPU_RESOURCE, 0))
    if not WHOLE.fullmatch(value) or int(value) > MOST_GPUS:
        raise RequestError(
            f"pod {name}: limits['{GPU_RESOURCE}'] is {value!r}; it must be a whole number"
        )
    return int(value)


def _count(told: dict[str, str], key: str, name: str, least: int = 1) -> int | None:
    value = told.get(key)
    if value is None:
        return None
    if not WHOLE.fullmatch(value) or int(value) < least:
        raise RequestError(
            f"pod {name}: {key} is {value!r}; it must be a whole number from {least}"
        )
    return int(value)


def _number(told: dict[str, str], key: str, name: str, least: float) -> float | None:
    value = told.get(key)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number <= MOST_S:
        raise RequestError(f"pod {name}: {key} is {value!r}; it must be a number of seconds")
    return number


def _moment_s(value: str, name: str) -> float:
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError as error:
        raise RequestError(
            f"pod {name}: creationTimestamp is {value!r}; it must be like 2026-01-31T12:00:00Z"
        ) from error
