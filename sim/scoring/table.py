"""The names of all features, one line each: what the linear score weighs and agents observe.

A member is the place of its feature in its group, from 0 on: `row[OfJob.AGE]`, in compiled code
as well. Shipped policies were trained on these columns, so a new one comes last in its group.
`sim.scoring.features` fills the columns of observations, `sim.scoring.scores` what weights are for.
"""

from enum import IntEnum
from typing import Self


class Column(IntEnum):
    """A group of features: a line says what one means, or of what group it is taken over."""

    means: str
    source: "Column | None"

    def __new__(cls, given: "str | Column") -> Self:
        """The next place of the group."""
        member = int.__new__(cls, len(cls.__members__))
        member._value_ = len(cls.__members__)
        member.means = given.means if isinstance(given, Column) else given
        member.source = given if isinstance(given, Column) else None
        return member


class OfJob(Column):
    """A job of the window: `jobs` of an observation."""

    THERE = "1: there is a job"
    GANG = "log2(GPUs) / 4"
    SINGLE = "1: one GPU"
    LEFT = "(ln predicted work left - 7) / 2.5"
    AGE = "ln(1 + age) / 10"
    AGE_OVER_LEFT = "ln((age + 60) / predicted work left) / 5"
    FORWARDS = "forwards so far / 3"
    STEP = "ln(predicted step, most compact, fastest GPU type present) / 2"
    COMM_OVER_2 = "ln(1 + seconds of communication over 2 servers / that step)"
    COMM_OVER_4 = "ln(1 + seconds of communication over 4 servers / that step)"
    RANK = "place in the window / W"
    CAN_START = "1: any start is legal"
    PLACEABLE = "1: fits compactly on empty GPUs"
    WORK = "(ln(predicted work left x GPUs) - 8) / 3"
    OLD = "1: out of patience"


class OfPair(Column):
    """A job on a placement: `pairs` of an observation; all zero where the start is not legal."""

    LEGAL = "1: legal"
    SPREAD = "ln(step alone on these GPUs / step on the most compact ones of the fastest type)"
    CONTENTION = "ln(step with today's jobs on its NICs and uplinks / step alone)"
    OWN_SLOWDOWN = "ln(step beside its neighbours / step without them), of the slowest worker"
    WORST_VICTIM = "ln(largest slow-down of a neighbour, of its compute)"
    VICTIMS_DELAY = "ln(1 + seconds that its neighbours lose / own predicted work left)"
    SERVERS = "servers / 8"
    SHARED = "share of its GPUs that others hold too"
    FRAGMENTS = "empty GPUs left over on its servers / GPUs of the partition's largest server"
    COMPACT = "1: no more servers than the gang needs"
    WAIT_OVER_LOSS = "ln of the wait for a compact place over what this one loses"
    PROLONGS = "by how much its servers fall empty later"
    HOLDS_UP = "by how much it puts off the compact places of the window's other jobs"


class OfGpu(Column):
    """An own GPU: `gpus` of an observation; zero while its server is away."""

    THERE = "1: there is a GPU"
    TENANTS = "tenants / 2"
    LEFT = "(ln longest predicted work left of a tenant - 4) / 4"
    SLOWDOWN = "sum over tenants of ln of a tenant's mean slow-down, by its part of the GPU"
    EMPTY = "1: no tenant"


class OfServer(Column):
    """An own server: `servers` of an observation; zero while it is away."""

    THERE = "1: there is a server"
    EMPTY = "share of its GPUs without a tenant"
    SHARED = "share of its GPUs with several"
    GPUS = "GPUs / 8"
    NIC_JOBS = "multi-server jobs on its NIC / 4"
    UPLINK_JOBS = "multi-rack jobs on its rack's uplink / 4"
    LEFT = "the longest `left` of its GPUs"


class OfLinks(Column):
    """A server's links: `server_links` of an observation, for encoders that read links."""

    NIC_RATE = "ln(Gbps of its NIC / 10) / 4"
    UPLINK_RATE = "ln(Gbps of its rack's uplink / 10) / 4"
    NIC_LOAD = "sum over jobs on its NIC of the share of time for which they communicate"
    UPLINK_LOAD = "the same of its rack's uplink"


class OfEdge(Column):
    """A link inside a server: `link_edges` of an observation, for the same."""

    NVLINK = "1: NVLink"
    PCIE = "1: GPU to PCIe switch"
    SOCKET = "1: through a socket"
    RATE = "ln(Gbps / 100) / 2"


class OfPeer(Column):
    """A partition: `peers` of an observation."""

    THERE = "1: there is a partition"
    OWN = "1: the agent's own"
    LOAD = "GPUs wanted by waiting and running jobs / GPUs, at most 4"
    WAITING = "ln(1 + waiting jobs) / 4"
    EMPTY = "share of empty GPUs"
    LARGEST_NOW = "largest gang that fits compactly now / 16"
    SIZE = "ln(GPUs / GPUs of the own partition)"


class OfForward(Column):
    """A job and another partition: `forwards` of an observation."""

    LEGAL = "1: legal by the rules"
    PLACEABLE = "1: fits compactly there now"
    LOAD_DIFFERENCE = "its load - the own load, within +-4"
    WORK_AHEAD = "ln(1 + GPU-hours of shorter jobs that wait there / GPUs)"
    WORK_AHEAD_HERE = "the same of the own partition"
    HOPS_LEFT = "forwards left / 3"
    WAIT_DIFFERENCE = "ln of the wait for a compact place here over that there"
    START_DIFFERENCE = "the same behind those who wait and are shorter"
    PROLONGS = "by how much a server there would fall empty later"
    FRAGMENTS = "empty GPUs that would be left over on it"
    PUTS_OFF = "by how much the largest gang's compact place there would come later"


class OfSuspension(Column):
    """A job, and the running jobs that would make room for it in a partition: `suspensions`."""

    LEGAL = "1: legal"
    WORK_RATIO = "ln(GPU-seconds that the victims have left over those of the job) / 2.5"
    LEAST_RATIO = "ln(least work left of a victim over that of the job) / 2.5"
    VICTIMS_LEFT = "ln(mean work left of the victims, GPU by GPU, / 1 h) / 2.5"
    WASTE = "(workers that stop + empty GPUs there - gang) / GPUs of the partition's largest server"
    HOMELESS = "share of the victims' GPUs whose jobs have no compact place elsewhere now"
    TIMES = "ln(1 + most times that a victim was suspended before)"
    RAN = "ln(1 + least time that a victim has run since it started / 600 s) / 2.5"
    WAIT = "ln of the wait for a compact place in the own partition over work left"
    ELSEWHERE = "1: in another partition, to which the job is forwarded"
    OCCUPANCY = "share of that partition's GPUs with a tenant"
    PRESSURE = "ln(1 + GPUs that waiting jobs of that partition want / GPUs)"


class OfContext(Column):
    """The own partition: `context` of an observation."""

    EMPTY = "share of empty GPUs"
    TENANTS = "tenants / GPUs"
    WAITING = "ln(1 + waiting jobs) / 4"
    LOAD = "GPUs wanted by waiting and running jobs / GPUs, at most 4"
    LARGEST_NOW = "largest gang that fits compactly now / 16"
    PARTITIONS = "partitions / 8"
    LOAD_OF_OTHERS = "mean load of the others - the own load, within +-4"
    SIZE = "ln(GPUs) / 6"
    PRESSURE = "ln(1 + GPUs that waiting jobs want / GPUs)"


# What speaks of other partitions: ablations take it away.
CONTEXT_OF_OTHERS = (OfContext.PARTITIONS, OfContext.LOAD_OF_OTHERS)
FORWARD_OF_OTHERS = (
    OfForward.PLACEABLE, OfForward.LOAD_DIFFERENCE, OfForward.WORK_AHEAD,
    OfForward.WAIT_DIFFERENCE, OfForward.START_DIFFERENCE, OfForward.PROLONGS,
    OfForward.FRAGMENTS, OfForward.PUTS_OFF,
)  # fmt: skip


class StartWeight(Column):
    """What the linear score weighs of a start; offsets and scales: `sim.scoring.ahead`."""

    BIAS = "1"
    SPREAD = "ln(step, NICs and uplinks as busy as they are / most compact step)"
    SPREAD_X_OCCUPANCY = "`spread` x `occupancy`"
    SPREAD_X_DURATION = "`spread` x `duration`"
    SPREAD_X_PRESSURE = "`spread` x `pressure`"
    DURATION = "ln(predicted work left / 1 h) / 2.5"
    AGE = "ln(1 + age / 600 s) / 2.5"
    RELATIVE_AGE = "ln(1 + age / predicted work left) / 2.5"
    OWN_SLOWDOWN = OfPair.OWN_SLOWDOWN
    WORST_VICTIM = OfPair.WORST_VICTIM
    VICTIMS_DELAY = OfPair.VICTIMS_DELAY
    SHARED = "1: a candidate that shares"
    SHARED_X_PRESSURE = "`shared` x `pressure`"
    GANG = OfJob.GANG
    OCCUPANCY = "share of the partition's GPUs with a tenant"
    FRAGMENTS = OfPair.FRAGMENTS
    PRESSURE = OfContext.PRESSURE
    # From here on optional: they look at when running jobs are predicted to end.
    WAIT_OVER_LOSS = OfPair.WAIT_OVER_LOSS
    PROLONGS = OfPair.PROLONGS
    HOLDS_UP = OfPair.HOLDS_UP


class ForwardWeight(Column):
    """What the linear score weighs of a forward."""

    BIAS = "1"
    LOAD_DIFFERENCE = "the own load - its load, within +-3"
    PLACEABLE = OfForward.PLACEABLE
    DURATION = StartWeight.DURATION
    GANG = OfJob.GANG
    HOPS = "forwards so far / the most allowed"
    # From here on optional, as above.
    WAIT_DIFFERENCE = OfForward.WAIT_DIFFERENCE
    START_DIFFERENCE = OfForward.START_DIFFERENCE
    PROLONGS = OfForward.PROLONGS
    FRAGMENTS = OfForward.FRAGMENTS
    PUTS_OFF = OfForward.PUTS_OFF


class SuspendWeight(Column):
    """What the linear score weighs of a suspension: running jobs make room for one that waits."""

    BIAS = "1"
    DURATION = StartWeight.DURATION
    AGE = StartWeight.AGE
    GANG = OfJob.GANG
    WORK_RATIO = OfSuspension.WORK_RATIO
    LEAST_RATIO = OfSuspension.LEAST_RATIO
    VICTIMS_LEFT = OfSuspension.VICTIMS_LEFT
    WASTE = OfSuspension.WASTE
    HOMELESS = OfSuspension.HOMELESS
    TIMES = OfSuspension.TIMES
    RAN = OfSuspension.RAN
    WAIT = OfSuspension.WAIT
    ELSEWHERE = OfSuspension.ELSEWHERE
    OCCUPANCY = OfSuspension.OCCUPANCY
    PRESSURE = OfSuspension.PRESSURE


# Weights of what observations hold as it is: (weight, column).
START_OF_PAIR = tuple((w, w.source) for w in StartWeight if isinstance(w.source, OfPair))
FORWARD_OF_ROW = tuple((w, w.source) for w in ForwardWeight if isinstance(w.source, OfForward))
SUSPEND_OF_ROW = tuple((w, w.source) for w in SuspendWeight if isinstance(w.source, OfSuspension))
