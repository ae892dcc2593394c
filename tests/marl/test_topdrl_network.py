"""The images by hand, and what the networks promise."""

import pytest
import torch

from marl.topdrl import network as images
from marl.topdrl.network import build_network, dueling
from tests.marl.topdrl_worlds import env_of, network_of, observation_of, york_world


def batch_of(world, seed=1):
    seen, _ = env_of(world).reset(seed=seed)
    return {key: torch.from_numpy(value)[None] for key, value in seen.items()}


def test_the_canvas_fills_columns_until_gpus_are_free():
    gpus = torch.zeros(1, 1, 1, 3, 3)
    gpus[0, 0, 0, :, 2] = 1.0
    gpus[0, 0, 0, 1] = torch.tensor([0.5, 0.25, 1.0])
    gpus[0, 0, 0, 2] = torch.tensor([1.0, 0.75, 1.0])
    canvas = images.canvas(gpus, 4)
    assert canvas[0, 0].tolist() == [[0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]]
    assert canvas[0, 1].tolist() == [[0, 0.25, 0.75], [0, 0.25, 0.75], [0, 0, 0.75], [0, 0, 0.75]]
    assert images.topology_map(gpus)[0].tolist() == [[[1, 0, 0]], [[0, 0.5, 1]], [[1, 1, 1]]]


def test_blocks_are_rows_of_time_times_gpus():
    slots = torch.zeros(1, 2, 6)
    slots[0, 0] = torch.tensor([1.0, 0.5, 0.5, 0.1, 0.2, 0.3])
    blocks = images.blocks(slots, 4, 2)
    job = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert blocks[0, 0].tolist() == job
    assert blocks[0, 1].tolist() == [pytest.approx([0.1, 0.1, 0, 0])] * 4
    assert blocks[0, 3].tolist() == [pytest.approx([0.3, 0.3, 0, 0])] * 4


def test_dueling_heads_average_over_what_is_legal():
    values = dueling(
        torch.tensor([[2.0]]), torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([[1.0, 0.0, 1.0]])
    )
    assert values.tolist() == [[1.0, -torch.inf, 3.0]]


@pytest.mark.parametrize("branches", ["multi", "single"])
def test_gradients_reach_every_weight(branches):
    world = york_world()
    network = build_network(network_of(world, branches), observation_of())
    values = network(batch_of(world))
    values[torch.isfinite(values)].pow(2).sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in network.parameters())
    assert all(weight.grad is not None for weight in network.parameters())


def test_scores_follow_their_jobs_from_slot_to_slot():
    world = york_world()
    network = build_network(network_of(world), observation_of())
    seen = batch_of(world)
    seen["slots"] = torch.rand(1, 4, 6)
    seen["action_mask"] = torch.ones(1, 5)
    order = [2, 0, 3, 1]
    turned = {**seen, "slots": seen["slots"][:, order]}
    before, after = network(seen)[0].detach(), network(turned)[0].detach()
    assert after[:4].tolist() == pytest.approx(before[order].tolist(), abs=1e-5)
    assert float(after[4]) == pytest.approx(float(before[4]), abs=1e-5)


def test_the_same_weights_read_a_larger_cluster():
    small, large = york_world(), york_world(racks=3, servers=4)
    network = build_network(network_of(small), observation_of())
    assert torch.isfinite(network(batch_of(large))[0]).any()
