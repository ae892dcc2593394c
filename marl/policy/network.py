"""`PairScorePolicy` with its default encoder, compiled: one observation, and whole runs.

Only legal actions are scored. The same numbers as the torch module's but for rounding, tested.
"""

import math
from dataclasses import dataclass

import numpy as np

from marl.env.actions import FORWARD, MODES, SUSPEND, TIE, WAIT
from marl.env.layout import CodecRules, Layout
from marl.env.observe import Buffers
from marl.env.playing import TURN, Play, act, play_on, routines
from marl.env.plays import blank_buffers, make_play
from marl.policy.parts import (
    Joint,
    Norm,
    Prior,
    Two,
    Update,
    joint_score,
    norm,
    prior_forward,
    prior_start,
    prior_suspension,
    read_job,
    share,
    two_layers,
    update,
)
from sim.arrays import FloatArray, IntArray
from sim.compiling import Routine, write_addresses
from sim.handle import Handle, ask, count, signature_of
from sim.jit import kernel
from sim.kernel.step import ILLEGAL, PAUSE
from sim.protocols import Fault
from sim.scoring.table import OfGpu, OfPeer, OfServer
from sim.scoring.weights import add_product, copy_numbers
from sim.view import ViewMaker

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
    suspend_for: Joint  # not asked where agents may not suspend
    wait: Two
    seek: Two  # these two are empty where it does not read the whole datacenter
    found: FloatArray  # (H, H)
    prior: Prior
    speaks: bool  # some last weight is not zero; else the prior decides, and nothing is encoded
    # Scratch.
    server: FloatArray  # (S, H)
    lower: FloatArray  # (S, H) servers on the way down
    keys: FloatArray  # (S, MODES * H)
    rack: FloatArray  # (R, H)
    place: FloatArray  # (M, S, H) what is found on servers of all partitions, if it reads them
    embedded: FloatArray  # (M, H) all partitions
    sought: FloatArray  # (H,)
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
    pair: FloatArray  # (P,) of a forward or a suspension, with what is known of the partition
    one: FloatArray  # (1,)
    routine: IntArray  # (3,) addresses of CHOOSE, PLAY_ON and ACT (`link`)


@kernel
def _encode_servers(net: Net, gpus: FloatArray, servers: FloatArray, server_rack: IntArray) -> None:
    """Servers from their GPUs, and the racks' sums and counts."""
    net.rack[:] = 0.0
    net.in_rack[:] = 0
    for s in range(servers.shape[0]):  # in one pass: racks add up servers as they are made
        if servers[s, OfServer.THERE] <= 0.0:
            continue
        count = 0
        net.gpu_mean[:] = 0.0
        for k in range(gpus.shape[1]):  # none is kept: a server reads their mean alone
            if gpus[s, k, OfGpu.THERE] <= 0.0:
                continue
            copy_numbers(net.gpu.bias, net.gpu_state)
            add_product(gpus[s, k], net.gpu.own, net.gpu_state)
            for d in range(len(net.gpu_mean)):  # ReLU on the way: the state is not read again
                net.gpu_mean[d] += max(net.gpu_state[d], 0.0)
            count += 1
        for d in range(len(net.gpu_mean)):  # means: servers differ in size
            net.gpu_mean[d] /= max(count, 1)
        update(servers[s], net.gpu_mean, net.server_up, net.server[s])
        rack = server_rack[s]
        net.in_rack[rack] += 1
        for h in range(len(net.cluster)):  # a sum until all are counted
            net.rack[rack, h] += net.server[s, h]


@kernel
def _encode_racks(net: Net) -> bool:
    """Racks from their servers, the partition from its racks, and racks again; False: no server."""
    net.mean[:] = 0.0
    racks = 0
    for r in range(len(net.in_rack)):  # racks without a server that is up do not count
        if net.in_rack[r] == 0:
            continue
        racks += 1
        for h in range(len(net.mean)):  # not needed before the way down: scratch so far
            net.rack_down_state[r, h] = net.rack[r, h] / net.in_rack[r]
        update(net.mean, net.rack_down_state[r], net.rack_up, net.rack[r])
        for h in range(len(net.mean)):  # racks count alike, however many servers they have
            net.mean[h] += net.rack[r, h]
    for h in range(len(net.mean)):  # only now are the racks counted
        net.mean[h] /= max(racks, 1)
    update(net.mean, net.mean, net.cluster_up, net.cluster)
    for r in range(len(net.in_rack)):  # a second pass: each reads the partition's state
        if net.in_rack[r] > 0:
            update(net.rack[r], net.cluster, net.rack_down, net.rack_down_state[r])
    return racks > 0


@kernel
def _encode_partition(
    net: Net, gpus: FloatArray, servers: FloatArray, server_rack: IntArray
) -> bool:
    """Fill `lower` and `cluster`, GPU -> server -> rack -> partition and back; False: no server."""
    _encode_servers(net, gpus, servers, server_rack)
    has_server = _encode_racks(net)
    for s in range(servers.shape[0]):  # after the racks, which each reads
        net.lower[s, :] = 0.0
        if servers[s, OfServer.THERE] > 0.0:
            update(
                net.server[s], net.rack_down_state[server_rack[s]], net.server_down, net.lower[s]
            )
            norm(net.lower[s], net.server_norm)
    norm(net.cluster, net.cluster_norm)
    return has_server


@kernel
def _encode_others(net: Net, buffers: Buffers) -> None:
    """Fill `embedded` and `place`, partition by partition."""
    for m in range(len(buffers.all_gpus)):  # one by one: they share the scratch of one partition
        servers = buffers.all_servers[m]
        has_server = _encode_partition(net, buffers.all_gpus[m], servers, buffers.all_racks[m])
        for h in range(len(net.cluster)):  # the next one overwrites it
            net.embedded[m, h] = net.cluster[h] if has_server else 0.0
        net.place[m] = 0.0
        for s in range(servers.shape[0]):  # padding is 0 and stays so
            add_product(net.lower[s], net.found, net.place[m, s])


@kernel
def _encode(net: Net, buffers: Buffers) -> None:
    """Fill `state` and `keys`, and what is read of all partitions."""
    _encode_others(net, buffers)
    has_server = _encode_partition(net, buffers.gpus, buffers.servers, buffers.server_rack)
    for s in range(buffers.servers.shape[0]):  # once a turn, for every job of the window
        copy_numbers(net.key.bias, net.keys[s])
        add_product(net.lower[s], net.key.own, net.keys[s])
    width, context = len(net.cluster), len(buffers.context)
    net.state[:] = 0.0
    for h in range(width if has_server else 0):  # none: zeros, as in torch
        net.state[h] = net.cluster[h]
    for k in range(context):  # behind the cluster, where weights expect it
        net.state[width + k] = buffers.context[k]
    count = 0.0
    for m in range(buffers.peers.shape[0]):  # first: their number is what sums are divided by
        count += buffers.peers[m, OfPeer.THERE]
    for m in range(buffers.peers.shape[0]):  # divided on the way, which spares a pass
        if buffers.peers[m, OfPeer.THERE] > 0.0:
            for k in range(buffers.peers.shape[1]):  # behind the context, where weights expect it
                net.state[width + context + k] += buffers.peers[m, k] / max(count, 1.0)


@kernel
def _ask(net: Net, buffers: Buffers, w: int, by: Two, out: FloatArray) -> None:
    """Fill out (H,): what row `w` of the window asks of servers, here (`query`) or elsewhere."""
    jobs = buffers.jobs.shape[1]
    for k in range(jobs):  # copied: the first layer reads one vector
        net.asked[k] = buffers.jobs[w, k]
    for k in range(len(buffers.context)):  # behind the job, where weights expect it
        net.asked[jobs + k] = buffers.context[k]
    two_layers(net.asked, by, net.hidden, out)


@kernel
def _best_start(
    net: Net, buffers: Buffers, w: int, first: int, best: tuple[int, float]
) -> tuple[int, float]:
    """The better of `best` (action, logit) and the legal starts of row `w`, from action `first`."""
    action, most = best
    servers, width, known = buffers.servers.shape[0], len(net.cluster), False
    for at in range(servers * MODES):  # ascending: ties go to the lower action
        if buffers.action_mask[first + at] == 0:
            continue
        if not known:  # most rows have no legal start: theirs are not worked out
            known = True
            read_job(net.prior, buffers, w)
            if net.speaks:
                _ask(net, buffers, w, net.query, net.query_state)
                share(buffers.jobs[w], net.start, net.of_state[0], net.start_shared)
        s, mode = at // MODES, at % MODES
        score = prior_start(net.prior, buffers, w, s, mode)
        if net.speaks:
            match = 0.0
            for h in range(width):  # scores are rounded, so any order of summing will do
                match += net.query_state[h] * net.keys[s, mode * width + h]
            score += match / math.sqrt(width)
            pair = buffers.pairs[w, s, mode]
            score += joint_score(pair, net.start, net.start_shared, net.hidden)
        score = np.rint(score * TIES)
        if score > most:
            action, most = first + at, score
    return action, most


@kernel
def _found_in(net: Net, buffers: Buffers, m: int) -> float:
    """How well what is `sought` is found in partition `m`: ln of a sum over its servers."""
    most, total, width = -np.inf, 0.0, len(net.sought)
    for s in range(buffers.all_servers.shape[1]):  # one pass: a larger one scales the sum anew
        if buffers.all_servers[m, s, OfServer.THERE] <= 0.0:
            continue
        match = 0.0
        for h in range(width):  # torch adds in another order: equal but for rounding
            match += net.sought[h] * net.place[m, s, h]
        match /= math.sqrt(width)
        if match > most:
            total, most = total * math.exp(most - match) + 1.0, match
        else:
            total += math.exp(match - most)
    return most + math.log(total) if total > 0.0 else 0.0


@kernel
def _fill_pair(net: Net, buffers: Buffers, m: int, row: FloatArray) -> int:
    """Fill `pair`: the row of a forward or suspension, what is known of partition `m`; its size."""
    width, peers = len(row), buffers.peers.shape[1]
    all_of = width + peers
    for k in range(width):  # copied: the first layer reads one vector
        net.pair[k] = row[k]
    for k in range(peers):  # behind the row, where weights expect it
        net.pair[width + k] = buffers.peers[m, k]
    if len(buffers.all_gpus) > 0:
        for h in range(len(net.sought)):  # embedded once a turn, read by each pair
            net.pair[all_of + h] = net.embedded[m, h]
        all_of += len(net.sought) + 1
        net.pair[all_of - 1] = _found_in(net, buffers, m)
    return all_of


@kernel
def _best_elsewhere(
    net: Net, buffers: Buffers, kind: int, w: int, first: int, best: tuple[int, float]
) -> tuple[int, float]:
    """The same of forwards or suspensions (`kind`)."""
    action, most = best
    suspends = kind == SUSPEND
    rows = buffers.suspensions if suspends else buffers.forwards
    by = net.suspend_for if suspends else net.forward_to
    known = False
    for m in range(rows.shape[1]):  # ascending: ties go to the lower action
        if buffers.action_mask[first + m] == 0:
            continue
        if not known:
            known = True
            read_job(net.prior, buffers, w)
            if net.speaks:
                share(buffers.jobs[w], by, net.of_state[2 if suspends else 1], net.pair_shared)
            if net.speaks and len(buffers.all_gpus) > 0:
                _ask(net, buffers, w, net.seek, net.sought)
        if suspends:
            score = prior_suspension(net.prior, buffers, w, m)
        else:
            score = prior_forward(net.prior, buffers, w, m)
        if net.speaks:
            pair = net.pair[: _fill_pair(net, buffers, m, rows[w, m])]
            score += joint_score(pair, by, net.pair_shared, net.hidden)
        score = np.rint(score * TIES)
        if score > most:
            action, most = first + m, score
    return action, most


@kernel
def best_action(net: Net, buffers: Buffers, numbers: IntArray) -> int:
    """The greedy action, the first of those that tie; `numbers`: `Sizes.table`."""
    if net.speaks:
        _encode(net, buffers)
        net.of_state[:] = 0.0
        add_product(net.state, net.start.of_state, net.of_state[0])
        add_product(net.state, net.forward_to.of_state, net.of_state[1])
        add_product(net.state, net.suspend_for.of_state, net.of_state[2])
    best = (-1, -np.inf)
    window, starts = buffers.jobs.shape[0], buffers.servers.shape[0] * MODES
    for w in range(window):  # starts first: they have the lower numbers, and win ties
        best = _best_start(net, buffers, w, w * starts, best)
    for kind in (FORWARD, SUSPEND):  # then these, by number
        for w in range(window if numbers[kind, 2] > 0 else 0):  # no suspensions without the rule
            best = _best_elsewhere(
                net, buffers, kind, w, numbers[kind, 0] + w * numbers[kind, 2], best
            )
    if buffers.action_mask[numbers[WAIT, 0]] != 0:
        net.one[0] = 0.0
        if net.speaks:
            two_layers(net.state, net.wait, net.hidden, net.one)
        if np.rint(net.one[0] * TIES) > best[1]:
            return int(numbers[WAIT, 0])
    return best[0]


@kernel
def choose(play: Play, net: Net) -> int:
    """The greedy action of the agent whose turn it is."""
    return int(best_action(net, play.buffers, play.numbers))


@kernel
def _play(play: Play, net: Net, until: int) -> int:
    """Run on from where nobody is asked; OVER, STUCK, FULL, PAUSE (so many decisions), ILLEGAL."""
    turn = play.memory.turn[0]
    turn.halt = until
    while True:  # turn by turn, until Python is needed
        verdict = count(net.routine[PLAY_ON], play)
        if verdict != TURN:
            return int(verdict)
        if not ask(net.routine[ACT], play, count(net.routine[CHOOSE], play, net)):
            return ILLEGAL
        if turn.decisions >= until:
            return PAUSE


def link(net: Net, play: Play, *, plays: bool = False) -> None:
    """Write down where what plays runs like `play` stands, and what fills the buffers of `play`.

    It is compiled once, for all callers; `plays`: whole runs, in `NetLoop`.
    """
    here = [
        Routine(CHOOSE, choose, count, (play, net)),
        Routine(PLAY_ON, play_on, count, (play,)),
        Routine(ACT, act, ask, (play,), 1),
    ]
    entry = (_play, signature_of(play, net, numbers=1)) if plays else None
    write_addresses((play.routine, routines(play)), (net.routine, here), entry=entry)


class NetLoop:
    """One run, played greedily."""

    def __init__(self, views: ViewMaker, layout: Layout, rules: CodecRules, net: Net) -> None:
        """For a run that begins; `net` is used by one run at a time."""
        self._net = net
        buffers = blank_buffers(layout, servers=net.speaks)
        self._turns = make_play(views.view(), layout, rules, buffers, gathers=False)
        link(net, self._turns, plays=True)

    @property
    def decisions(self) -> int:
        """Times that somebody was asked so far, or nobody had a choice."""
        return int(self._turns.memory.turn["decisions"][0])

    @property
    def fault(self) -> Fault:
        """Why an action was refused."""
        turn = self._turns.memory.turn[0]
        return int(turn["verdict"]), int(turn["refused_job"]), int(turn["refused_what"])

    def play(self, until_decision: int) -> int:
        """Run on; OVER, STUCK, FULL, PAUSE or ILLEGAL."""
        return int(_play(self._turns, self._net, until_decision))
