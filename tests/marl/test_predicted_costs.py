"""What a pair row predicts is what the kernel does, where the belief is the physics."""

import numpy as np
import pytest

from marl.codec.layout import MODES
from tests.marl.games import RULES, RandomJobs, mixed_game
from tests.marl.test_masks import Round, play, starts_of

SPREAD, CONTENTION, SELF, VICTIM = 1, 2, 3, 4  # columns of a pair row


def predicted_and_real(now: Round) -> list[tuple[int, float, float]]:
    """(mode, rate that the pair row predicts, the kernel's rate right after that start)."""
    import copy

    from sim.kernel.state import State

    found = []
    tables = now.rounds._tables  # the codec's own unit of a step
    for agent, observation in now.seen.items():
        window = now.window(agent)
        for row, server, mode in np.argwhere(starts_of(now, agent)).tolist():
            action = (row * now.rounds.layout.servers + server) * MODES + mode
            trial = copy.copy(now.simulator)
            trial.state = State(*(array.copy() for array in now.simulator.state))
            trial.apply(now.rounds.decide(now.view, {agent: action}))
            job = window[row]
            pair = observation["pairs"][row, server, mode]
            step_s = np.exp(pair[[SPREAD, CONTENTION, SELF]].sum()) * tables.reference_step_s[job]
            rate = trial.state.reference_step_s[job] / step_s
            found.append((mode, float(rate), float(trial.state.rate[job])))
    return found


@pytest.mark.parametrize("partitions", [1, 2])
def test_predicted_speed_is_the_kernels_exclusive_and_shared_on_mixed_types(partitions: int):
    seen = []
    for seed in range(4):
        jobs = RandomJobs(count=25, partitions=partitions, most_gpus=6, span_s=900.0)(seed)
        for now in play(mixed_game(partitions), jobs, RULES, seed):
            seen += predicted_and_real(now)
    modes, predicted, real = (np.array(column) for column in zip(*seen, strict=True))
    assert predicted == pytest.approx(real, rel=1e-5)
    assert np.bincount(modes).min() > 100  # both modes were met often,
    assert np.ptp(np.log(real)) > 1.0  # and speeds differed
