"""Pollux: numbers of GPUs by genetic search."""

import numpy as np
import pytest

from sim.placers.by_room import Packed
from sim.schedulers.optimus import Optimus
from sim.schedulers.pollux import Effort, Limits, Pollux, keep_within, search
from tests.sim.worlds import Job, attempts, charted, cluster, elastic, fifo, gantt, play, world

KNOBS = {"round_s": 2.0, "population": 30, "generations": 20, "power": -1.0}


def pollux(**knobs) -> Pollux:
    return Pollux(placer=Packed(), **{**KNOBS, "idle_speedup": 0.01, "restart_s": 0.0, **knobs})


# Two jobs of one GPU that can use up to 4, with no communication: n GPUs do n times the work.
TRACE = [Job(0, 1, 8), Job(1, 1, 4)]
YARD = elastic([1, 1], [4, 4])


def test_all_there_is_then_fair_shares_then_all_again():
    # A has all 4 GPUs from the round at 0: 4 s of its 8 are done at 1, when B comes and waits, and
    # all 8 at 2: B has all 4 for 1 s.
    assert charted(TRACE, cluster(1, 4), pollux(), traits=YARD) == "AaB*4"
    # Longer jobs: 16 s and 8 s. At 2 A has 8 left; shares of 2 and 2 have the best harmonic mean
    # (1 and 1 of a fair share; 3 and 1 make 4/3 of 3/2 and 1/2). At 4 A has 4 left, B too: both end
    # at 6.
    trace = [Job(0, 1, 16), Job(1, 1, 8)]
    assert charted(trace, cluster(1, 4), pollux(), traits=YARD) == "AaAaaa*2 AaBbbb*2"


def test_optimus_and_fifo_differ():
    # Remaining times 8 and 8 s of one GPU at 2 are alike; with B at 2 s, Optimus gives the GPU that
    # shortens most to A (3 and 1), Pollux knows no durations (2 and 2).
    trace = [Job(0, 1, 40), Job(1, 1, 2)]
    ours = attempts(play(world(trace, cluster(1, 4), traits=YARD), pollux()).log)
    assert [stay.gpus for stay in ours["B"]] == [(2, 3)]
    told = Optimus(placer=Packed(), round_s=2.0, hysteresis_frac=0.0)
    theirs = attempts(play(world(trace, cluster(1, 4), traits=YARD), told).log)
    assert [len(stay.gpus) for stay in theirs["B"]] == [1]
    # FIFO gives everybody the gang asked for, at once: one GPU each.
    plain = fifo(Packed(), skip_blocked=False)
    assert charted(trace, cluster(1, 4), plain, traits=YARD) == f"A{'a' * 39} .Bb"


def test_rigid_gangs_take_turns():
    # One GPU, rounds of 2 s. At 2 B has waited a round longer than A, which gives way. At 4 A has
    # not yet missed a whole round; at 6 it has.
    assert charted([Job(0, 1, 6), Job(0, 1, 5)], cluster(1, 1), pollux()) == "AaBbbbAaaaB"


def test_a_large_rigid_gang_gets_its_turn():
    # Two small jobs cost as much idle as one large one idle for a round: C waits for it to be more.
    jobs = [Job(0, 1, 40), Job(0, 1, 40), Job(1, 2, 3)]
    run = play(world(jobs, cluster(1, 2)), pollux())
    assert run.finish_s[2] < 12


def test_who_is_restarting_stays():
    # Restarts of 3 s are longer than rounds of 2 s: still everybody gets work done.
    run = play(world([Job(0, 1, 6), Job(0, 1, 5)], cluster(1, 1), restart_s=3.0), pollux())
    assert run.finish_s.max() < 40


def test_a_restart_must_be_worth_it():
    # A (2 GPUs at best) has 1 until B ends at 3. At 4 a second GPU would make it twice as fast, but
    # of its age of 4 s a restart costs half of 8: (4 - 0) / (4 + 8) of twice is no gain. Without
    # the penalty it grows at 4.
    traits = elastic([1, 1], [2, 1])
    trace = [Job(0, 1, 9), Job(0, 1, 3)]
    for restart_s, drawing in (
        (8.0, "Aaaaaaaaaaaaaaaaaa Bbbbbb"), (0.0, "AaaaaaaaAaaaa Bbbbbb..Aaaaa")
    ):  # fmt: skip
        found = charted(
            trace, cluster(1, 2), pollux(restart_s=restart_s), traits=traits, column_s=0.5
        )
        assert found == drawing


def test_gangs_of_several_servers_keep_apart():
    # Servers of 4. A holds 6 GPUs: servers 0 and, of server 1, two. B, 6 GPUs, could have the other
    # two of server 1, which has the better fit; it goes to servers 2 and 3.
    run = play(world([Job(0, 6, 9), Job(0, 6, 9)], cluster(4, 4)), pollux())
    servers = [{gpu // 4 for gpu in gantt(run)[job][2]} for job in "AB"]
    assert servers == [{0, 1}, {2, 3}]


def brute_force(cost: np.ndarray, limits: Limits) -> float:
    best, room = np.inf, limits.room_milli // 1000
    for numbers in np.ndindex(*(most + 1 for most in limits.most)):
        chosen = np.array(numbers)
        legal = np.all((chosen == 0) | (chosen >= limits.least)) and chosen.sum() <= room
        if legal:
            best = min(best, cost[np.arange(len(chosen)), chosen].sum())
    return float(best)


def test_the_search_finds_what_trying_everything_finds():
    rng = np.random.default_rng(0)
    for _ in range(5):
        least = rng.integers(1, 3, 4)
        limits = Limits(least, least + rng.integers(0, 4, 4), np.full(4, 1000), 8000)
        cost = 1.0 / np.maximum(0.01, np.arange(9) ** rng.uniform(0.3, 1.0, 4)[:, None])
        found = search(limits.least[None], cost, limits, Effort(40, 60), rng)
        assert cost[np.arange(4), found].sum() == pytest.approx(brute_force(cost, limits))


def test_cutting_keeps_every_limit():
    rng = np.random.default_rng(1)
    least = rng.integers(1, 5, 12)
    limits = Limits(least, least + rng.integers(0, 6, 12), rng.choice([300, 1000], 12), 10_000)
    counts = rng.integers(0, 12, (50, 12))
    keep_within(counts, np.argsort(rng.random(counts.shape), axis=1), *limits)
    assert np.all((counts == 0) | ((counts >= limits.least) & (counts <= limits.most)))
    used = (counts * limits.size_milli).sum(axis=1)
    assert used.max() <= 10_000 and used.min() > 5_000
