"""Orders of textbooks, each on a timeline on which its nearest relatives do otherwise."""

import numpy as np
import pytest

from sim.errors import EndlessRun
from sim.placers import by_room
from sim.protocols import Placer
from sim.schedulers.easy import Easy
from sim.schedulers.orders import (
    Fifo,
    Las,
    LeastInterferenceFirst,
    LoadBalance,
    Sjf,
    SmallestGang,
    Spjf,
    Spwf,
    Srsf,
    Srtf,
    Tetris,
    WcsDuration,
    WcsSubtime,
    WcsWorkload,
)
from sim.sharing import AlwaysShare, NoSharing, SelectiveSharing
from sim.simulator import simulate
from sim.topology.outages import Change
from sim.view import Signal
from tests.sim import worlds
from tests.sim.worlds import Job, changes, chart, charted, cluster, gantt, physics_of, play, world

RULES = {"placer": by_room.FirstFit(), "sharing": NoSharing()}
SKIP = {**RULES, "skip_blocked": True}
STRICT = {**RULES, "skip_blocked": False}
SRTF = Srtf(**RULES)
EASY = Easy(**RULES, overrun_s=1.0)


def las(quantum_gpu_s: float) -> Las:
    return Las(**RULES, quantum_gpu_s=quantum_gpu_s)


BLOCKED = [Job(0, 1, 10), Job(1, 2, 5), Job(2, 1, 3)]
# A holds one of two GPUs. By duration B (2) goes before C (3); by work C (3) before B (4).
WIDE = [Job(0, 1, 5), Job(1, 2, 2), Job(1, 1, 3)]
# Three GPUs, two of them held by A. Work: B 2 x 2 = 4, C 1 x 5 = 5; durations B 2, C 5, D 4.
WIDER = [Job(0, 2, 6), Job(1, 2, 2), Job(1, 1, 5), Job(1, 3, 4)]
# Two GPUs: A holds one to 4. B needs both; of C and D the shorter fills the gap at 1.
GAP = [Job(0, 1, 4), Job(1, 2, 2), Job(1, 1, 6), Job(1, 1, 3)]
LESS_WORK = [*GAP[:3], Job(1, 1, 5)]  # D 5, C 6; B 2 x 2 = 4 does not fit at 1
WIDE_AND_NARROW = [Job(0, 2, 2), Job(0, 1, 3)]  # by duration A (2 s) first, by work B (3 GPU-s)
GANGS = [Job(0, 4, 10), Job(1, 4, 3), Job(2, 2, 5), Job(3, 2, 5)]
SHORT_LAST = [Job(0, 1, 10), Job(1, 1, 8), Job(2, 1, 2)]
MISTOLD = [Job(0, 1, 10), Job(1, 1, 8, 1), Job(2, 1, 2, 5)]
INVERSE = [Job(0, 1, 10, 1), Job(1, 1, 8, 2), Job(2, 1, 2, 9)]
TWO = [Job(0, 1, 10), Job(1, 1, 3)]
SMALL_LATER = [Job(0, 4, 6), Job(1, 1, 10)]  # at 1 A has 5 s left, 20 GPU-s; B asks for 10
HEAD = [Job(0, 1, 10), Job(1, 2, 5), Job(2, 1, 3), Job(3, 1, 20)]  # B is the head that waits
PACKING = [Job(0, 4, 10), Job(1, 1, 8), Job(2, 4, 4), Job(3, 1, 3)]
CASES = {  # what is seen -> order, jobs, GPUs of the one server, the chart of each GPU
    "fifo: a blocked head blocks": (
        Fifo(**STRICT), BLOCKED, 2, "AaaaaaaaaaBbbbbCcc ..........Bbbbb"),
    "fifo: or those behind may start": (
        Fifo(**SKIP), BLOCKED, 2, "AaaaaaaaaaBbbbb ..Ccc.....Bbbbb"),
    "fifo: in order of rows at one instant": (Fifo(**STRICT), [Job(0, 1, 3)] * 3, 1, "AaaBbbCcc"),
    "spjf: the shortest waits and blocks": (Spjf(**STRICT), WIDE, 2, "AaaaaBbCcc .....Bb"),
    "sjf: lets C pass, B does not fit": (Sjf(**SKIP), WIDE, 2, "AaaaaBb .Ccc.Bb"),
    "spwf: C has less work": (Spwf(**STRICT), WIDE, 2, "AaaaaBb .Ccc.Bb"),
    "spjf: believes the prediction": (
        Spjf(**STRICT), [Job(0, 1, 1, 9), Job(0, 1, 9, 1)], 1, "BbbbbbbbbA"),
    "spwf: B waits for A, C blocks D": (
        Spwf(**STRICT), WIDER, 3, "AaaaaaBb...Dddd*2 ......CccccDddd"),
    "spjf: the wide job before the long one": (
        Spjf(**STRICT), WIDER, 3, "AaaaaaBbDdddCcccc AaaaaaBbDddd ........Dddd"),
    "wcs_duration: the shortest that fits": (
        WcsDuration(**SKIP), GAP, 2, "AaaaBbCccccc .DddBb"),
    "spjf: leaves the gap": (Spjf(**STRICT), GAP, 2, "AaaaBbDdd ....BbCccccc"),
    "wcs_subtime: the first that fits": (WcsSubtime(**SKIP), GAP, 2, "AaaaDddBb .CcccccBb"),
    "fifo: keeps the order": (Fifo(**STRICT), GAP, 2, "AaaaBbCccccc ....BbDdd"),
    "wcs_workload: the least work that fits": (
        WcsWorkload(**SKIP), LESS_WORK, 2, "AaaaCcccccBb .Ddddd....Bb"),
    "spwf: keeps the order": (Spwf(**STRICT), LESS_WORK, 2, "AaaaBbDdddd ....BbCccccc"),
    "wcs_duration: the wide one first": (WcsDuration(**SKIP), WIDE_AND_NARROW, 2, "AaBbb Aa"),
    "wcs_workload: the narrow one first": (WcsWorkload(**SKIP), WIDE_AND_NARROW, 2, "BbbAa ...Aa"),
    "smallest_gang: few GPUs before many": (
        SmallestGang(**SKIP), GANGS, 4, "AaaaaaaaaaCccccBbb*2 AaaaaaaaaaDddddBbb*2"),
    "fifo: B came first": (
        Fifo(**SKIP), GANGS, 4, "AaaaaaaaaaBbbCcccc*2 AaaaaaaaaaBbbDdddd*2"),
    "sjf: B is shortest": (Sjf(**SKIP), GANGS, 4, "AaaaaaaaaaBbbCcccc*2 AaaaaaaaaaBbbDdddd*2"),
    "srsf: service counts the GPUs": (
        Srsf(**RULES), SMALL_LATER, 4, "ABbbbbbbbbbAaaaa A..........Aaaaa*3"),
    "srtf: does not": (SRTF, SMALL_LATER, 4, "AaaaaaBbbbbbbbbb Aaaaaa*3"),
    # A is predicted to end at 2. At 1 it has 1 s left by that, B asks for 5; at 3, 0 s and 1.
    "srsf: leaves alone who outran the prediction": (
        Srsf(**RULES), [Job(0, 1, 10, 2), Job(1, 1, 5), Job(3, 1, 1)], 1, "AaaaaaaaaaCBbbbb"),
    "sjf: C passes the long one, not the running one": (
        Sjf(**SKIP), SHORT_LAST, 1, "AaaaaaaaaaCcBbbbbbbb"),
    "fifo: C does not pass": (Fifo(**SKIP), SHORT_LAST, 1, "AaaaaaaaaaBbbbbbbbCc"),
    "sjf: follows a wrong prediction": (Sjf(**SKIP), MISTOLD, 1, "AaaaaaaaaaBbbbbbbbCc"),
    "sjf: equals by submission": (
        Sjf(**SKIP), [Job(0, 1, 4), Job(1, 1, 2), Job(1, 1, 2)], 1, "AaaaBbCc"),
    # At 1 A has 9 left, B 8; at 2 B has 7 left, C 2. Predictions are the wrong way round.
    "srtf: less work left takes the GPU": (SRTF, INVERSE, 1, "ABCcBbbbbbbAaaaaaaaa"),
    "sjf: preempts nobody and believes": (Sjf(**SKIP), INVERSE, 1, "AaaaaaaaaaBbbbbbbbCc"),
    # C (2 GPUs, 12 s) may push aside B (20 s left), A (5 s) not: it gains nothing.
    "srtf: who cannot be placed preempts nobody": (
        SRTF, [Job(0, 1, 5), Job(0, 1, 20), Job(1, 2, 12)], 2,
        "AaaaaCcccccccccccBbbbbbbbbbbbbbb BbbbbCccccccccccc"),
    # At 4 A has one quantum, B none.
    "las: the newcomer waits for the quantum": (las(4.0), TWO, 1, "AaaaBbbAaaaaa"),
    "fifo: waits": (Fifo(**SKIP), TWO, 1, "AaaaaaaaaaBbb"),
    "srtf: at 1 B has 3 s left, A has 9 s": (SRTF, TWO, 1, "ABbbAaaaaaaaa"),
    "las: 4 GPU-seconds are over at 2": (
        las(4.0), [Job(0, 2, 10), Job(1, 2, 1)], 2, "AaBAaaaaaaa*2"),
    # Quanta of 2: at 4 B (1) is not behind A (1) and goes on to 6 (2), A from there to 10 (3).
    "las: turns quantum by quantum": (las(2.0), [Job(0, 1, 6), Job(0, 1, 7)], 1, "AaBbbbAaaaBbb"),
    # B has both GPUs reserved for 10. C is over at 5, D would not be.
    "easy: who is over in time passes the head": (
        EASY, HEAD, 2, "AaaaaaaaaaBbbbbDddddddddddddddddddd ..Ccc.....Bbbbb"),
    "fifo: D passes it, too": (
        Fifo(**SKIP), HEAD, 2, "Aaaaaaaaaa...............Bbbbb ..CccDdddddddddddddddddddBbbbb"),
    "fifo: nobody passes it": (
        Fifo(**STRICT), HEAD, 2, "AaaaaaaaaaBbbbbCcc ..........BbbbbDddddddddddddddddddd"),
    "easy: at 10 B will have GPUs 0 and 1, C the third": (
        EASY, [Job(0, 2, 10), Job(1, 2, 5), Job(2, 1, 30)], 3,
        "AaaaaaaaaaBbbbb*2 ..Cccccccccccccccccccccccccccccc"),
    # A was to end at 2. At 3 it is taken to end at 8: C (4 s) passes B, D (6 s) does not, nor at 7,
    # when A is taken to end at 12.
    "easy: who outran its prediction is about to end": (
        Easy(**RULES, overrun_s=5.0), [Job(0, 1, 10, 2), Job(1, 2, 5), Job(3, 1, 4), Job(3, 1, 6)],
        2, "AaaaaaaaaaBbbbbDddddd ...Cccc...Bbbbb"),
    # Alignment, the share of a server that is wanted: B 1/4, C 1, D 1/4, mean 1/2.
    # Work in GPU-s: B 8, C 16, D 3, mean 9. Score: B 1/4 - 1/2 * 8/9 = -0.19, C 0.11, D 0.08.
    "tetris: the big gang goes first": (
        Tetris(**{**SKIP, "placer": by_room.WorstFit()}), PACKING, 4,
        "AaaaaaaaaaCcccDdd AaaaaaaaaaCcccBbbbbbbb AaaaaaaaaaCccc*2"),
    "sjf: D first, C blocked, B beside D": (
        Sjf(**{**SKIP, "placer": by_room.WorstFit()}), PACKING, 4,
        "AaaaaaaaaaDdd.....Cccc AaaaaaaaaaBbbbbbbbCccc Aaaaaaaaaa........Cccc*2"),
    "load_balance: B first, C blocked, D beside B": (
        LoadBalance(**{**SKIP, "placer": by_room.LeastLoaded()}), PACKING, 4,
        "AaaaaaaaaaBbbbbbbbCccc AaaaaaaaaaDdd.....Cccc Aaaaaaaaaa........Cccc*2"),
}  # fmt: skip
test_the_chart_of_one_server_is_as_drawn = worlds.as_drawn(CASES)


def test_tetris_knows_short_jobs_where_no_gpu_is_empty_and_one_is_to_be_shared():
    jobs = [Job(0, 1, 4), Job(0, 1, 100), Job(1, 1, 50), Job(1, 1, 5)]
    rules = {"placer": by_room.WorstFit(), "sharing": AlwaysShare(), "skip_blocked": True}
    run = play(world(jobs, cluster(1, 1), max_tenants=2), Tetris(**rules))
    assert run.start_s.tolist() == [0, 0, 9, 4]


def test_names_and_needs_and_costs_are_told():
    runs = [play(world(BLOCKED, cluster(1, 2)), Fifo(**each)) for each in (STRICT, SKIP)]
    assert [run.scheduler for run in runs] == ["fifo+first_fit", "fifo_skip+first_fit"]
    assert WcsSubtime.order_needs == Signal.NONE
    run = play(world(INVERSE, cluster(1, 1)), SRTF)
    assert run.preemptions.tolist() == [1, 1, 0]
    assert run.run_s.tolist() == [10, 8, 2]


def test_each_restart_holds_the_gpu_without_progress():
    assert charted(INVERSE, cluster(1, 1), SRTF, restart_s=1.0) == "ABCcBbbbbbbbAaaaaaaaaa"


def test_srtf_preempts_only_those_whose_gpus_are_needed():
    # C wants one whole server for 4 s; B (12 s) has most left and goes, not A (10 s), alone on 0.
    trace = [Job(0, 1, 10), Job(0, 2, 12), Job(1, 2, 4)]
    scheduler = Srtf(placer=by_room.Consolidated(), sharing=NoSharing())
    assert charted(trace, cluster(2, 2), scheduler) == "Aaaaaaaaaa . BCcccBbbbbbbbbbb*2"


def test_easy_reserves_a_compact_place():
    # From 2 two GPUs are free, on two servers: D waits for server 0, which is its own from 10.
    # E (20 s) goes to server 1, F (6 s) is over in time.
    trace = [Job(0, 1, 10), Job(0, 1, 2), Job(0, 1, 12), Job(3, 2, 5), Job(4, 1, 20), Job(4, 1, 6)]
    scheduler = Easy(placer=by_room.Consolidated(), sharing=NoSharing(), overrun_s=1.0)
    assert charted(trace, cluster(2, 2), scheduler) == (
        "AaaaaaaaaaDdddd Bb..FfffffDdddd Cccccccccccc ....Eeeeeeeeeeeeeeeeeeee"
    )


def test_load_balance_spreads_gangs_and_skips_the_blocked():
    # Worker by worker: A on both servers. At 5 E passes D, which wants two: free at 8, when C ends.
    trace = [Job(0, 2, 10), Job(1, 1, 4), Job(2, 1, 6), Job(3, 2, 5), Job(4, 1, 2)]
    topology, balance = cluster(2, 2), LoadBalance(**{**SKIP, "placer": by_room.LeastLoaded()})
    assert charted(trace, topology, balance) == "Aaaaaaaaaa .BbbbEe.Ddddd Aaaaaaaaaa ..CcccccDdddd"
    # A step takes 1 s, and 1 s more across servers: A at half speed where spread.
    physics = physics_of(topology, server_s=(0.0, 0.0, 1.0))
    found = charted(trace[:1], topology, balance, physics=physics)
    assert found == "Aaaaaaaaaaaaaaaaaaaa . Aaaaaaaaaaaaaaaaaaaa"
    packed = Fifo(**{**SKIP, "placer": by_room.Packed()})
    assert charted(trace[:1], topology, packed, physics=physics) == "Aaaaaaaaaa*2"


# Least interference first. Profile 0 is heavy, 1 light: two heavy ones 4x, any other pair 2x.
SLOWDOWN = ((4.0, 2.0), (2.0, 2.0))
HEAVY_AND_LIGHT = [Job(0, 1, 10), Job(1, 1, 10), Job(2, 1, 4, profile=1)]


@pytest.mark.parametrize(
    ("placer", "drawing"),
    [
        # B: beside A it would cost 4 x 4, alone 1: GPU 1. C costs 2 x 2 on either: the lower id.
        # C does 4 s of work at half speed. A: 2 s, then 8 s at half speed = 6, then 4 more.
        (by_room.LeastInterference(), "Aaaaaaaaaaaaaa+..Cccccccc .Bbbbbbbbbb"),
        # B joins A at 1; C finds GPU 0 full. A has 9 s left at quarter speed: 37. B has done 9 by
        # then, and does its last second alone.
        (by_room.FirstFit(), f"A{'a' * 36}+.B{'b' * 36} ..Cccc"),
    ],
)
def test_lif_workers_go_where_self_and_victims_suffer_least(placer: Placer, drawing: str):
    topology = cluster(1, 2)
    lif = LeastInterferenceFirst(placer=placer, sharing=AlwaysShare(), skip_blocked=True)
    yard = {"physics": physics_of(topology, slowdown=SLOWDOWN), "max_tenants": 2}
    assert charted(HEAVY_AND_LIGHT, topology, lif, **yard) == drawing


@pytest.mark.parametrize(
    ("placer", "gpus"),
    # Server 0 has a light job on GPU 0; a gang of two is cheapest on 1 and 2, across servers. Both
    # servers have two usable GPUs, and packed takes the lowest index.
    [(by_room.LeastInterference(), (1, 2)), (by_room.Packed(), (0, 1))],
)
def test_lif_is_blind_to_spread_where_packed_is_not(placer: Placer, gpus: tuple[int, ...]):
    topology = cluster(2, 2)
    lif = LeastInterferenceFirst(placer=placer, sharing=AlwaysShare(), skip_blocked=True)
    yard = world([Job(0, 1, 10, profile=1), Job(1, 2, 4, profile=1)], topology, max_tenants=2,
                 physics=physics_of(topology, slowdown=SLOWDOWN))  # fmt: skip
    assert gantt(play(yard, lif))["B"][2] == gpus


def test_easy_reserves_the_first_end_that_lets_the_head_in_though_the_next_would_not():
    # A has GPU 0 to itself; B, C and D share GPU 1, whose fourth tenant E cannot be beside D. B and
    # E slow each other threefold: beside C they are together fast enough, alone they are not. So E
    # has a place once D ends at 4, none once C does, and again after B. F would run to 7: it waits.
    slowdown = np.ones((5, 5))
    slowdown[0, 2] = slowdown[2, 0] = 3.0
    physics = physics_of(cluster(1, 2), slowdown=slowdown.tolist(),
                         infeasible=[(3, 0), (3, 1), (3, 2), (3, 4), (2, 4)])  # fmt: skip
    profiles = [(0, 40, 3), (0, 30, 0), (0, 20, 1), (0, 4, 4), (1, 4, 2), (2, 5, 1)]
    jobs = [Job(submit, 1, work, profile=profile) for submit, work, profile in profiles]
    easy = Easy(placer=by_room.FirstFit(), sharing=SelectiveSharing(threshold=1.2), overrun_s=1.0)
    run = play(world(jobs, cluster(1, 2), physics=physics, max_tenants=4), easy)
    assert run.start_s.tolist() == [0, 0, 0, 0, 4, 4]


def test_las_with_a_quantum_below_the_clock_s_grain_still_moves_time():
    # At 1e9 s a double steps by 1e-7 s, more than the 1e-9 of a quantum that counts as past it.
    trace = [Job(1e9, 3, 2.1), Job(1e9 + 0.3, 3, 2.1)]
    run = play(world(trace, cluster(1, 3)), las(0.7))
    assert run.finish_s.max() == pytest.approx(1e9 + 4.2, abs=1e-3)


def test_las_with_turns_no_longer_than_the_restart_still_does_work():
    # Two gangs of 4, quantum 8 GPU-s: a turn of 2 s, after a restart of 4 s that is no service.
    run = play(world([Job(0, 4, 6), Job(0, 4, 6)], cluster(1, 4), restart_s=4.0), las(8.0))
    assert run.finish_s.max() < 60.0


def test_las_with_a_restart_just_short_of_a_quantum_makes_no_rush_of_decisions():
    # A gives way at 3.999, 0.001 s short of its second quantum, and is back at 9.999 while others
    # wait. Its quantum is over only after the restart of 60 s, not every 0.001 s from then on.
    trace = [Job(0, 1, 10), Job(3.999, 1, 10), Job(3.999, 1, 10)]
    run = play(world(trace, cluster(1, 1), restart_s=60.0), las(2.0))
    mine = run.log.time_s[run.log.job == 0].tolist()
    assert mine[:5] == [0.0, 0.0, 3.999, 9.999, 70.0]  # it comes, starts, goes, is back, goes
    assert run.decisions < 100


@pytest.mark.parametrize("compiled", [True, False])
def test_las_does_not_forget_the_restart_of_who_moves(compiled: bool):
    # A is evicted at 7 and restarts on server 0 until 10. At 8 B takes that and A moves back, which
    # takes until 11, and its quantum until 12; without restarts it would be over at 9, when nobody
    # has to be asked. Asked at 0, 7, 8, 10 (B is due), 12 (so are A and C) and 14 (both end).
    yard = world([Job(0, 1, 10), Job(8, 2, 4), Job(8, 2, 4)], cluster(2, [2, 1]), restart_s=3.0,
                 outages=changes((7, 1, Change.CLOSE), (8, 1, Change.OPEN)))  # fmt: skip
    consolidated = Las(placer=by_room.Consolidated(), sharing=NoSharing(), quantum_gpu_s=4.0)
    run = simulate(yard, consolidated, 0, None, compiled=compiled)
    assert chart(run) == ".......ABbCcccBbbbb ........BbCcccBbbbb Aaaaaaa.Aaaaaa"
    assert run.decisions == 6


@pytest.mark.parametrize("compiled", [True, False])
def test_jobs_that_keep_nothing_take_turns_for_ever_and_that_is_said(compiled: bool):
    endless = world([Job(0, 1, 6), Job(0, 1, 7)], cluster(1, 1), preempt_saves=False)
    with pytest.raises(EndlessRun, match=r"job A has lost its GPUs .*preempt_saves=true"):
        simulate(endless, las(2.0), 0, None, compiled=compiled)


def test_turns_that_keep_their_work_end_however_many():
    # Turns of two quanta of 0.01 s: 50,000 of them before one of the jobs ends.
    run = play(world([Job(0, 1, 500), Job(0, 1, 500)], cluster(1, 1)), las(0.01))
    assert run.preemptions.sum() > 49_000
    assert np.isfinite(run.finish_s).all()
