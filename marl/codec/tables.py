"""What the codec's compiled functions read: the state of a run and tables beside it."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from marl.codec.asks import asks_of, holds_of
from sim.arrays import BoolArray, FloatArray, IntArray
from sim.handle import Handle
from sim.kernel.layout import State
from sim.physics.reference import compact_spread
from sim.physics.slowing_tables import Slowing, empty_crowd
from sim.view import ClusterView

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Tables(Handle):
    """The state of a run, and tables that the run does not change."""

    state: State
    submit_s: FloatArray  # (J,)
    num_gpus: IntArray  # (J,)
    profile: IntArray  # (J,)
    estimate_s: FloatArray  # (J,)
    gpu_server: IntArray  # (G,)
    server_first_gpu: IntArray  # (S + 1,)
    server_rack: IntArray  # (S,)
    server_type: IntArray  # (S,)
    compute_s: FloatArray  # (P, T)
    slowing: Slowing
    feasible: BoolArray  # (T, P, P)
    local_s: FloatArray
    server_s: FloatArray
    rack_s: FloatArray
    nic_factor: FloatArray
    uplink_factor: FloatArray
    reference_step_s: FloatArray  # (J,) predicted step, most compact, fastest type present
    asks: IntArray  # (J, 5) see `marl.codec.asks`
    holds: IntArray  # (S, 4) the same
    crowd: IntArray  # scratch of `sim.physics.slowing`
    limit_milli: int
    rest_share: float  # of what a job has done, which it is thought to have left at least


def tables_of(view: ClusterView, rest_share: float) -> Tables:
    """Tables for one run; `view` needs PREDICTION, PROFILE and INTERFERENCE."""
    belief, topology, jobs = view.belief, view.topology, view.jobs
    network = belief.network
    return Tables(
        state=view.state,
        submit_s=_copy(jobs.submit_s),
        num_gpus=_copy(jobs.num_gpus),
        profile=_copy(jobs.profile),
        estimate_s=_copy(jobs.estimate_s),
        gpu_server=_copy(topology.gpu_server.astype(np.int64)),
        server_first_gpu=_copy(topology.server_first_gpu.astype(np.int64)),
        server_rack=_copy(topology.server_rack.astype(np.int64)),
        server_type=_copy(view.server_type),
        compute_s=_copy(belief.catalogue.compute_s),
        slowing=belief.slowing,
        feasible=_copy(belief.pairs.feasible),
        local_s=_copy(network.local_s),
        server_s=_copy(network.server_s),
        rack_s=_copy(network.rack_s),
        nic_factor=_copy(network.nic_factor),
        uplink_factor=_copy(network.uplink_factor),
        reference_step_s=_reference_step_s(view),
        asks=_copy(asks_of(view)),
        holds=_copy(holds_of(view)),
        crowd=empty_crowd(view.tenant.shape[1]),
        limit_milli=view.gpu_limit_milli,
        rest_share=rest_share,
    )


def _reference_step_s(view: ClusterView) -> FloatArray:
    jobs, network = view.jobs, view.belief.network
    local, servers, racks = compact_spread(jobs.num_gpus, view.topology)

    def at(table: FloatArray, index: IntArray) -> FloatArray:
        picked: FloatArray = table[jobs.profile, np.minimum(index, table.shape[1] - 1)]
        return picked

    types = np.unique(view.server_type)
    fastest_s = view.belief.catalogue.compute_s[:, types].min(axis=1)[jobs.profile]
    comm_s = at(network.local_s, local) + at(network.server_s, servers) + at(network.rack_s, racks)
    step_s: FloatArray = fastest_s + comm_s
    return step_s


def _copy(table: npt.NDArray[T]) -> npt.NDArray[T]:
    return np.array(table, order="C")  # contiguous, and writable, as handles want it
