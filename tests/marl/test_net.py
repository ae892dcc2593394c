"""The compiled network chooses as the torch module does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numba import njit

from marl.env.actions import TIE
from marl.env.observe import copy_to
from marl.policy.build import PolicySpec, build_policy
from marl.policy.from_torch import net_of
from marl.policy.network import best_action
from marl.policy.pair_score import stack
from sim.scoring.table import ForwardWeight, StartWeight, SuspendWeight
from sim.scoring.weights import ScoreWeights
from tests.marl.playing import play
from tests.marl.worlds import RULES, RandomJobs, mixed_world
from tests.sim.test_layer import drawn

RNG = np.random.default_rng(3)
WEIGHTS = ScoreWeights(
    RNG.normal(size=len(StartWeight)), RNG.normal(size=len(ForwardWeight)),
    start_layer=drawn(5, len(StartWeight)), suspend=RNG.normal(size=len(SuspendWeight)),
    suspend_layer=drawn(4, len(SuspendWeight)),
)  # fmt: skip
SIZES = {"gpu_dim": 6, "hidden_dim": 8, "rounds": 1, "head_dim": 12}
SPECS = {
    "plain": PolicySpec(**SIZES, prior_scale=0.0),
    "prior": PolicySpec(**SIZES, prior_scale=2.0),
    "suspends": PolicySpec(**SIZES, prior_scale=1.5, suspends=True, start_units=5, suspend_units=4),
    "as it begins": PolicySpec(**SIZES, prior_scale=2.0),
    "datacenter": PolicySpec(**SIZES, prior_scale=1.5, suspends=True, datacenter=True),
}


@pytest.mark.parametrize("sizes", [2, [1, 3, 2]], ids=["even", "uneven"])
@pytest.mark.parametrize("name", SPECS)
def test_it_chooses_what_the_torch_module_chooses(name: str, sizes: int | list[int]):
    spec = SPECS[name]
    torch.manual_seed(1)
    policy = build_policy(spec, 4).eval()
    begins = name == "as it begins"  # beside a prior heads are zero then: nothing is encoded
    with torch.no_grad():
        for each in () if begins else policy.parameters():
            each.add_(0.3 * torch.randn_like(each))
    if policy.prior is not None:
        policy.prior.take(WEIGHTS if spec.suspends else replace(WEIGHTS, suspend=None))
    rules = replace(RULES, suspends=spec.suspends, datacenter=spec.datacenter, only_placeable=False)
    net, turns = None, 0
    for seed in range(2):
        jobs = RandomJobs(count=30, partitions=2, most_gpus=4, span_s=900.0)(seed)
        for now in play(mixed_world(2, sizes), jobs, rules, seed):
            layout = now.rounds.layout
            net = net_of(policy, layout) if net is None else net
            assert net is not None
            assert net.speaks != begins
            for seen in now.seen.values():
                with torch.no_grad():
                    logits = policy(stack([seen])).logits[0].double().numpy()
                buffers = now.rounds.play(now.view).buffers
                chosen = best_action(net, buffers, layout.sizes.table())
                assert seen["action_mask"][chosen] == 1
                assert logits[chosen] >= logits.max() - 2 * 10.0**-TIE
                turns += 1
    assert turns > 100


def test_encoders_that_are_not_compiled_say_so():
    policy = build_policy(PolicySpec(**(SIZES | {"rounds": 2}), prior_scale=0.0), 4)
    jobs = RandomJobs(count=3, partitions=2, most_gpus=4, span_s=900.0)(0)
    now = next(iter(play(mixed_world(2), jobs, RULES, 0)))
    assert net_of(policy, now.rounds.layout) is None
    flat = build_policy(PolicySpec(**SIZES, prior_scale=0.0, encoder="flat"), 4)
    assert net_of(flat, now.rounds.layout) is None


def test_doubles_become_floats_one_by_one():
    """In vectors they would make every logarithm after them slow (`sim.handle.one_by_one`)."""
    copied = njit(copy_to.py_func)
    copied(np.arange(11.0), np.zeros(11, dtype=np.float32))
    assert "vcvtpd2ps" not in "".join(copied.inspect_asm().values())
