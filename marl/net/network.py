"""What the network says of one observation, compiled: `PairScorePolicy` with its default encoder.

Only legal actions are scored. The same numbers as the torch module's but for rounding, tested.
"""

import math
from dataclasses import dataclass

import numpy as np

from marl.codec.observe import Canvas, copy_to
from marl.net.parts import (
    Joint,
    Norm,
    Two,
    Update,
    joint_score,
    norm,
    share,
    two_layers,
    update,
)
from marl.net.prior import Prior, prior_forward, prior_start, prior_suspension, read_job
from marl.turns.actions import FORWARD, MODES, SUSPEND, TIE, WAIT
from sim.arrays import FloatArray, IntArray
from sim.handle import Handle
from sim.jit import kernel
from sim.scoring.layer import add_product
from sim.scoring.table import OfGpu, OfPeer, OfServer

CHOOSE, PLAY_ON, ACT = range(3)  # in Net.routine
TIES = 10.0**TIE


@dataclass(frozen=True, eq=False)
class Net(Handle):
    """H wide embeddings, D of GPUs, h hidden units of heads, Z numbers of the state."""

    gpu: Update
    server_up: Update
    rack_up: Update
    cluster_up: Update
    rack_down: Update
    server_down: Update
    server_norm: Norm
    cluster_norm: Norm
    query: Two
    key: Update  # of a server's embedding: (H, MODES * H)
    start: Joint
    forward_to: Joint
    suspend_for: Joint  # empty where agents may not suspend
    wait: Two
    prior: Prior
    # Scratch.
    server: FloatArray  # (S, H)
    lower: FloatArray  # (S, H) servers on the way down
    keys: FloatArray  # (S, MODES * H)
    rack: FloatArray  # (R, H)
    rack_down_state: FloatArray  # (R, H)
    in_rack: IntArray  # (R,)
    cluster: FloatArray  # (H,)
    gpu_state: FloatArray  # (D,)
    gpu_mean: FloatArray  # (D,)
    mean: FloatArray  # (H,)
    state: FloatArray  # (Z,)
    asked: FloatArray  # (OfJob + OfContext,) what the query is made of
    query_state: FloatArray  # (H,)
    start_shared: FloatArray  # (h,)
    pair_shared: FloatArray  # (h,)
    of_state: FloatArray  # (3, h) of starts, forwards, suspensions
    hidden: FloatArray  # (h,)
    pair: FloatArray  # (P,) of a forward or a suspension, with the peer's row
    one: FloatArray  # (1,)
    routine: IntArray  # (3,) addresses of CHOOSE, PLAY_ON and ACT (`marl.net.playing`)


@kernel
def _encode_servers(net: Net, canvas: Canvas) -> None:
    """Servers from their GPUs, and the racks' sums and counts."""
    net.rack[:] = 0.0
    net.in_rack[:] = 0
    for s in range(canvas.servers.shape[0]):
        if canvas.servers[s, OfServer.THERE] <= 0.0:
            continue
        count = 0
        net.gpu_mean[:] = 0.0
        for k in range(canvas.gpus.shape[1]):
            if canvas.gpus[s, k, OfGpu.THERE] <= 0.0:
                continue
            copy_to(net.gpu.bias, net.gpu_state)
            add_product(canvas.gpus[s, k], net.gpu.own, net.gpu_state)
            for d in range(len(net.gpu_mean)):
                net.gpu_mean[d] += max(net.gpu_state[d], 0.0)
            count += 1
        for d in range(len(net.gpu_mean)):
            net.gpu_mean[d] /= max(count, 1)
        update(canvas.servers[s], net.gpu_mean, net.server_up, net.server[s])
        rack = canvas.server_rack[s]
        net.in_rack[rack] += 1
        for h in range(len(net.cluster)):
            net.rack[rack, h] += net.server[s, h]


@kernel
def _encode_racks(net: Net) -> bool:
    """Racks from their servers, the partition from its racks, and racks again; False: no server."""
    net.mean[:] = 0.0
    racks = 0
    for r in range(len(net.in_rack)):
        if net.in_rack[r] == 0:
            continue
        racks += 1
        for h in range(len(net.mean)):
            net.rack_down_state[r, h] = net.rack[r, h] / net.in_rack[r]
        update(net.mean, net.rack_down_state[r], net.rack_up, net.rack[r])
        for h in range(len(net.mean)):
            net.mean[h] += net.rack[r, h]
    for h in range(len(net.mean)):
        net.mean[h] /= max(racks, 1)
    update(net.mean, net.mean, net.cluster_up, net.cluster)
    for r in range(len(net.in_rack)):
        if net.in_rack[r] > 0:
            update(net.rack[r], net.cluster, net.rack_down, net.rack_down_state[r])
    return racks > 0


@kernel
def _encode(net: Net, canvas: Canvas) -> None:
    """Fill `state` and `keys`: GPU -> server -> rack -> partition and back down."""
    _encode_servers(net, canvas)
    there = _encode_racks(net)
    for s in range(canvas.servers.shape[0]):
        net.lower[s, :] = 0.0
        if canvas.servers[s, OfServer.THERE] > 0.0:
            above = net.rack_down_state[canvas.server_rack[s]]
            update(net.server[s], above, net.server_down, net.lower[s])
            norm(net.lower[s], net.server_norm)
        copy_to(net.key.bias, net.keys[s])
        add_product(net.lower[s], net.key.own, net.keys[s])
    norm(net.cluster, net.cluster_norm)
    width, context = len(net.cluster), len(canvas.context)
    net.state[:] = 0.0
    for h in range(width if there else 0):
        net.state[h] = net.cluster[h]
    for k in range(context):
        net.state[width + k] = canvas.context[k]
    count = 0.0
    for m in range(canvas.peers.shape[0]):
        count += canvas.peers[m, OfPeer.THERE]
    for m in range(canvas.peers.shape[0]):
        if canvas.peers[m, OfPeer.THERE] > 0.0:
            for k in range(canvas.peers.shape[1]):
                net.state[width + context + k] += canvas.peers[m, k] / max(count, 1.0)


@kernel
def _ask(net: Net, canvas: Canvas, w: int) -> None:
    """Fill `query_state` for row `w` of the window."""
    jobs = canvas.jobs.shape[1]
    for k in range(jobs):
        net.asked[k] = canvas.jobs[w, k]
    for k in range(len(canvas.context)):
        net.asked[jobs + k] = canvas.context[k]
    two_layers(net.asked, net.query, net.hidden, net.query_state)


@kernel
def _best_start(
    net: Net, canvas: Canvas, w: int, first: int, best: tuple[int, float]
) -> tuple[int, float]:
    """The better of `best` (action, logit) and the legal starts of row `w`, from action `first`."""
    action, most = best
    servers, width, asked = canvas.servers.shape[0], len(net.cluster), False
    for at in range(servers * MODES):
        if canvas.action_mask[first + at] == 0:
            continue
        if not asked:
            asked = True
            _ask(net, canvas, w)
            share(canvas.jobs[w], net.start, net.of_state[0], net.start_shared)
        s, mode = at // MODES, at % MODES
        score = joint_score(canvas.pairs[w, s, mode], net.start, net.start_shared, net.hidden)
        match = 0.0
        for h in range(width):
            match += net.query_state[h] * net.keys[s, mode * width + h]
        score += match / math.sqrt(width) + prior_start(net.prior, canvas, w, s, mode)
        score = np.rint(score * TIES)
        if score > most:
            action, most = first + at, score
    return action, most


@kernel
def _best_elsewhere(
    net: Net, canvas: Canvas, kind: int, w: int, first: int, best: tuple[int, float]
) -> tuple[int, float]:
    """The same of forwards or suspensions (`kind`)."""
    action, most = best
    suspends = kind == SUSPEND
    rows = canvas.suspensions if suspends else canvas.forwards
    by = net.suspend_for if suspends else net.forward_to
    width, shared = rows.shape[2], False
    for m in range(rows.shape[1]):
        if canvas.action_mask[first + m] == 0:
            continue
        if not shared:
            shared = True
            share(canvas.jobs[w], by, net.of_state[2 if suspends else 1], net.pair_shared)
        pair = net.pair[: width + canvas.peers.shape[1]]
        for k in range(width):
            pair[k] = rows[w, m, k]
        for k in range(canvas.peers.shape[1]):
            pair[width + k] = canvas.peers[m, k]
        score = joint_score(pair, by, net.pair_shared, net.hidden)
        if suspends:
            score += prior_suspension(net.prior, canvas, w, m)
        else:
            score += prior_forward(net.prior, canvas, w, m)
        score = np.rint(score * TIES)
        if score > most:
            action, most = first + m, score
    return action, most


@kernel
def best_action(net: Net, canvas: Canvas, numbers: IntArray) -> int:
    """The greedy action, the first of those that tie; `numbers`: `Sizes.table`."""
    _encode(net, canvas)
    net.of_state[:] = 0.0
    add_product(net.state, net.start.of_state, net.of_state[0])
    add_product(net.state, net.forward_to.of_state, net.of_state[1])
    add_product(net.state, net.suspend_for.of_state, net.of_state[2])
    best = (-1, -np.inf)
    window, starts = canvas.jobs.shape[0], canvas.servers.shape[0] * MODES
    for w in range(window):
        read_job(net.prior, canvas, w)
        best = _best_start(net, canvas, w, w * starts, best)
    for kind in (FORWARD, SUSPEND):
        for w in range(window if numbers[kind, 2] > 0 else 0):
            read_job(net.prior, canvas, w)
            best = _best_elsewhere(
                net, canvas, kind, w, numbers[kind, 0] + w * numbers[kind, 2], best
            )
    if canvas.action_mask[numbers[WAIT, 0]] != 0:
        two_layers(net.state, net.wait, net.hidden, net.one)
        if np.rint(net.one[0] * TIES) > best[1]:
            return int(numbers[WAIT, 0])
    return best[0]
