"""Training and deployment share one codec; a saved policy is the policy."""

import json
import pickle
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from marl.env.layout import CodecRules
from marl.policy import policy_folder
from marl.policy.build import PolicyFileError, build_policy, load_policy, save_policy
from marl.schedulers.marl import MarlScheduler
from sim.run import Run
from sim.simulator import simulate
from tests.marl.worlds import MIXED_JOBS, RULES, SMALL, RandomJobs, events, loud_policy, mixed_world


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_policy(tmp_path / "policy", loud_policy(SMALL, 0), SMALL, RULES)
    return tmp_path / "policy"


def deployed(folder: Path, seed: int, partitions: int = 2, untrained: bool = False) -> Run:
    jobs = replace(MIXED_JOBS, partitions=partitions)(seed)
    scheduler = MarlScheduler(checkpoint=str(folder), untrained=untrained)
    return simulate(mixed_world(partitions).simulator(jobs), scheduler, seed, None)


def test_a_saved_policy_decides_the_same(folder: Path, tmp_path: Path):
    loaded, spec, rules = load_policy(folder, 2)
    assert (spec, rules) == (SMALL, RULES)
    save_policy(tmp_path / "again", loaded, spec, rules)
    runs = [deployed(place, 1) for place in (folder, folder, tmp_path / "again")]
    assert len({events(run) for run in runs}) == 1
    save_policy(tmp_path / "other", loud_policy(SMALL, 5), SMALL, RULES)
    assert events(deployed(tmp_path / "other", 1)) != events(runs[0])


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_one_set_of_weights_runs_on_any_number_of_agents(folder: Path, partitions: int):
    jobs = RandomJobs(count=20, partitions=partitions, most_gpus=3, span_s=2000.0)(0)
    scheduler = MarlScheduler(checkpoint=str(folder), untrained=False)
    run = simulate(mixed_world(partitions).simulator(jobs), scheduler, 0, None)
    assert np.isfinite(run.finish_s).all()
    assert scheduler.name == "marl"


def test_untrained_takes_sizes_only_and_draws_weights_from_the_seed(folder: Path):
    torch.manual_seed(123)
    one, again = (deployed(folder, 1, untrained=True) for _ in range(2))
    assert one.scheduler == "marl_untrained"
    assert events(one) == events(again)
    assert events(one) != events(deployed(folder, 1))
    before = torch.random.get_rng_state()
    deployed(folder, 2, untrained=True)
    assert torch.equal(before, torch.random.get_rng_state())  # nobody else's draws change


def refused(folder: Path) -> str:
    with pytest.raises(PolicyFileError) as caught:
        load_policy(folder, 2)
    return str(caught.value)


def test_a_missing_folder_is_named_before_any_work(tmp_path: Path):
    with pytest.raises(PolicyFileError, match=r"nowhere.*policy\.json is not there"):
        MarlScheduler(checkpoint=str(tmp_path / "nowhere"), untrained=False)


def test_the_folder_of_a_run_points_to_the_policy_in_it(folder: Path):
    with pytest.raises(PolicyFileError, match=rf"did you mean {re.escape(str(folder))}\?"):
        load_policy(folder.parent, 2)


def test_the_best_policy_of_a_run_is_meant_from_anywhere_in_it(folder: Path, tmp_path: Path):
    for name in ("latest", "policy"):
        shutil.copytree(folder, tmp_path / "run" / name)
    (tmp_path / "run" / "checkpoint" / "iteration_000001").mkdir(parents=True)
    best = re.escape(str(tmp_path / "run" / "policy"))
    for named in (".", "checkpoint", "checkpoint/iteration_000001", "policy/policy.pt"):
        with pytest.raises(PolicyFileError, match=rf"did you mean {best}\?"):
            load_policy(tmp_path / "run" / named, 2)


def test_a_misspelt_policy_that_comes_along_lists_them():
    with pytest.raises(PolicyFileError, match=r"comes along: pretrained, pretrained_suspending"):
        MarlScheduler(checkpoint="pretraind", untrained=False)


def test_missing_and_truncated_weights_are_named(folder: Path):
    whole = (folder / "policy.pt").read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 40):
        (folder / "policy.pt").write_bytes(whole[:size])
        assert str(folder / "policy.pt") in refused(folder)
    (folder / "policy.pt").unlink()
    assert str(folder / "policy.pt") in refused(folder)


def test_weights_that_are_no_numbers_are_named(folder: Path):
    weights = torch.load(folder / "policy.pt", weights_only=True)
    first = next(iter(weights))
    weights[first] = weights[first] * float("nan")
    torch.save(weights, folder / "policy.pt")
    assert f"{first} holds NaN" in refused(folder)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", "3", '{"format": 4}', '{"format": 4, "policy": {}, "rules": {}}',
     '{"format": 4, "policy": 4, "rules": 5}', "\x00\x01"],
)  # fmt: skip
def test_a_foreign_description_is_named(folder: Path, text: str):
    (folder / "policy.json").write_text(text)
    assert str(folder / "policy.json") in refused(folder)


def test_another_format_is_told(folder: Path):
    content = json.loads((folder / "policy.json").read_text())
    (folder / "policy.json").write_text(json.dumps(content | {"format": 99}))
    assert "format 99" in refused(folder)


@pytest.mark.parametrize("value", ["8", -1, None, 0.5, True])
def test_a_size_that_is_none_is_named(folder: Path, value: object):
    content = json.loads((folder / "policy.json").read_text())
    content["policy"]["hidden_dim"] = value
    (folder / "policy.json").write_text(json.dumps(content))
    message = refused(folder)
    assert str(folder / "policy.json") in message
    assert f"hidden_dim is {value!r}" in message


def test_weights_of_another_size_are_named(folder: Path, tmp_path: Path):
    other = replace(SMALL, head_dim=16)
    save_policy(tmp_path / "wide", build_policy(other, 2), other, RULES)
    (folder / "policy.pt").write_bytes((tmp_path / "wide" / "policy.pt").read_bytes())
    assert str(folder / "policy.pt") in refused(folder)


class Bomb:
    """Unpickling this would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("name", ["pretrained", "pretrained_suspending"])
@pytest.mark.parametrize("group", ["jobs", "pairs", "gpus", "context", "peers", "forwards"])
def test_a_policy_of_before_a_column_plays_on(name: str, group: str, tmp_path: Path):
    """The last column of a group, and of the starts' weights, is taken out of a policy's file."""
    there, spec, rules = load_policy(policy_folder(name), 2)
    whole, cut = there.state_dict(), dict(there.state_dict())
    places = {
        "jobs": {"start.of_row": 14, "forward_to.of_row": 14, "query.0": 14,
                 "suspend_for.of_row": 14},
        "pairs": {"start.of_pair": 12},
        "gpus": {"encoder.gpu": 4},
        "context": {"query.0": 23, "wait.0": 72, "value.0": 72, "start.of_state": 72,
                    "forward_to.of_state": 72, "suspend_for.of_state": 72},
        "peers": {"wait.0": 79, "value.0": 79, "start.of_state": 79, "forward_to.of_state": 79,
                  "forward_to.of_pair": 17, "suspend_for.of_state": 79, "suspend_for.of_pair": 18},
        "forwards": {"forward_to.of_pair": 10},
    }[group]  # fmt: skip
    cuts = {f"{layer}.weight": at for layer, at in places.items()} | {"prior.start": 19}
    cuts |= {f"prior.start_layer.{part}": 19 for part in ("inner", "mean", "scale")}
    expected = dict(whole)
    for key, at in cuts.items():
        if key in whole:
            keep = [k for k in range(whole[key].shape[-1]) if k != at]
            cut[key] = whole[key][..., keep]
            expected[key] = whole[key].clone()
            expected[key][..., at] = 1.0 if key.endswith("scale") else 0.0
    save_policy(tmp_path, there, spec, rules)
    content = json.loads((tmp_path / "policy.json").read_text())
    del content["columns"]  # files of before named none
    (tmp_path / "policy.json").write_text(json.dumps(content))
    torch.save(cut, tmp_path / "policy.pt")
    found = load_policy(tmp_path, 2)[0].state_dict()
    assert all(torch.equal(found[key], expected[key]) for key in whole)


def test_loading_runs_no_code(folder: Path, tmp_path: Path):
    sign = tmp_path / "ran"
    torch.save({"key.weight": Bomb(sign)}, folder / "policy.pt")
    refused(folder)
    (folder / "policy.pt").write_bytes(pickle.dumps(Bomb(sign), protocol=2))
    refused(folder)
    assert not sign.exists()
    pickle.loads((folder / "policy.pt").read_bytes())  # the bomb does work
    assert sign.exists()


def test_rules_travel_with_the_policy(tmp_path: Path):
    rules = CodecRules(window=2, only_placeable=False, sharing=False, patience_s=1e9)
    save_policy(tmp_path, loud_policy(SMALL, 0), SMALL, rules)
    assert load_policy(tmp_path, 2)[2] == rules
    run = deployed(tmp_path, 1)
    held: dict[int, int] = {}
    for kind, gpus in zip(run.log.kind.tolist(), run.log.gpus, strict=True):
        for gpu in gpus.tolist():
            held[gpu] = held.get(gpu, 0) + (1 if kind == 4 else -1)
        assert all(count <= 1 for count in held.values())  # sharing was forbidden in training
