"""Files of policies: what they keep, how columns are found, and what is refused by name."""

import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from marl.env.layout import WORKER
from marl.policy import policy_folder
from marl.policy.build import (
    ENCODERS,
    PolicyFileError,
    build_policy,
    encoder_class,
    encoder_name,
    load_policy,
    read_spec,
    save_policy,
)
from marl.schedulers.marl import MarlScheduler
from sim.scoring.table import OfServer
from tests.marl.worlds import RULES, SMALL, loud_policy

Weights = dict[str, torch.Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_policy(tmp_path / "policy", loud_policy(SMALL, 0), SMALL, RULES)
    return tmp_path / "policy"


def described(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the description of a policy."""
    content = json.loads((folder / "policy.json").read_text())
    change(content)
    (folder / "policy.json").write_text(json.dumps(content))


def weighed(folder: Path, change: Callable[[Weights], Any]) -> None:
    """Change the weights of a policy."""
    weights = torch.load(folder / "policy.pt", weights_only=True)
    change(weights)
    torch.save(weights, folder / "policy.pt")


def same(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_is_found_by_its_class_and_kept_by_a_file(name: str, tmp_path: Path):
    found = encoder_class(name)
    assert encoder_name(f"{found.__module__}.{found.__qualname__}") == name
    spec = replace(SMALL, encoder=name, critic="own")
    policy = build_policy(spec, 2)
    save_policy(tmp_path, policy, spec, replace(RULES, links=spec.reads_links))
    loaded, again, _ = load_policy(tmp_path, 2)
    assert again == spec
    assert type(loaded.encoder) is found
    assert same(policy.state_dict(), loaded.state_dict())


def test_a_file_keeps_the_rules_and_one_of_before_has_what_there_was(folder: Path):
    rules = replace(RULES, granularity=WORKER, interval_s=30.0, rest_share=0.5, rest_most_s=60.0)
    save_policy(folder, build_policy(SMALL, 1), SMALL, rules)
    assert read_spec(folder) == (SMALL, rules)

    def before(content: dict[str, Any]) -> None:
        for key in ("encoder", "inner_rounds", "critic"):
            del content["policy"][key]
        for key in ("granularity", "interval_s", "rest_most_s"):
            del content["rules"][key]

    described(folder, before)
    spec, old = read_spec(folder)
    assert spec == SMALL
    assert (old.granularity, old.interval_s, old.rest_most_s) == ("gang", 0.0, None)


def test_columns_are_found_by_their_names(folder: Path):
    def shuffle(weights: Weights) -> None:
        # Backwards, and the first one was not there yet.
        weights["encoder.gpu.weight"] = weights["encoder.gpu.weight"].flip(-1)[:, :-1]

    def name(content: dict[str, Any]) -> None:
        content["columns"]["OfGpu"] = content["columns"]["OfGpu"][:0:-1]

    expected = load_policy(folder, 2)[0].state_dict()
    weighed(folder, shuffle)
    described(folder, name)
    expected["encoder.gpu.weight"] = expected["encoder.gpu.weight"].clone()
    expected["encoder.gpu.weight"][:, 0] = 0.0
    assert same(load_policy(folder, 2)[0].state_dict(), expected)


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_finds_the_columns_of_servers_by_their_names(name: str, tmp_path: Path):
    spec = replace(SMALL, encoder=name)
    policy = build_policy(spec, 2)
    save_policy(tmp_path, policy, spec, replace(RULES, links=spec.reads_links))
    described(tmp_path, lambda content: content["columns"]["OfServer"].reverse())
    written = policy.state_dict()
    found, count = load_policy(tmp_path, 2)[0].state_dict(), len(OfServer)
    (key,) = (key for key in written if not torch.equal(found[key], written[key]))
    assert key.endswith(".own.weight")
    assert torch.equal(found[key][:, :count], written[key][:, :count].flip(-1))
    assert torch.equal(found[key][:, count:], written[key][:, count:])


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
    described(tmp_path, lambda content: content.pop("columns"))  # files of before named none
    torch.save(cut, tmp_path / "policy.pt")
    assert same(load_policy(tmp_path, 2)[0].state_dict(), expected)


def refused(folder: Path) -> str:
    with pytest.raises(PolicyFileError) as caught:
        load_policy(folder, 2)
    return str(caught.value)


def test_columns_and_actions_that_are_gone_are_named(folder: Path):
    def widen(weights: Weights) -> None:
        gpu = weights["encoder.gpu.weight"]
        weights["encoder.gpu.weight"] = torch.nn.functional.pad(gpu, (0, 1))

    weighed(folder, widen)
    assert "cannot be read as this policy's weights" in refused(folder)
    described(folder, lambda content: content["columns"]["OfGpu"].append("heat"))
    assert "reads 'heat' of OfGpu, which is not here; see sim/" in refused(folder)
    described(folder, lambda content: content.pop("columns"))  # a file of before
    assert "trained on columns that are not here" in refused(folder)
    described(folder, lambda content: content.update(actions=["start", "migrate"]))
    assert "an action 'migrate'; here are start, forward, s" in refused(folder)


@pytest.mark.parametrize(
    ("part", "key", "value", "told"),
    [
        ("policy", "encoder", "os.system", "encoder is 'os.system'; it must be one of"),
        ("policy", "critic", "os.system", "critic is 'os.system'; it must be one of"),
        ("rules", "granularity", "crew", "granularity is 'crew'; it must be gang or worker"),
        *(("policy", "hidden_dim", each, f"hidden_dim is {each!r}")
          for each in ("8", -1, None, 0.5, True)),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(folder: Path, part: str, key: str, value: object, told: str):
    described(folder, lambda content: content[part].update({key: value}))
    message = refused(folder)
    assert str(folder / "policy.json") in message
    assert told in message


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", "3", '{"format": 4}', '{"format": 4, "policy": {}, "rules": {}}',
     '{"format": 4, "policy": 4, "rules": 5}', "\x00\x01"],
)  # fmt: skip
def test_a_foreign_description_is_named(folder: Path, text: str):
    (folder / "policy.json").write_text(text)
    assert str(folder / "policy.json") in refused(folder)


def test_another_format_is_told(folder: Path):
    described(folder, lambda content: content.update(format=99))
    assert "format 99" in refused(folder)


def test_the_best_policy_of_a_run_is_meant_from_anywhere_in_it(tmp_path: Path):
    with pytest.raises(PolicyFileError, match=r"nowhere.*policy\.json is not there"):
        MarlScheduler(checkpoint=str(tmp_path / "nowhere"))
    with pytest.raises(PolicyFileError, match=r"comes along: pretrained, pretrained_suspending"):
        MarlScheduler(checkpoint="pretraind")
    run = tmp_path / "run"
    save_policy(run / "policy", build_policy(SMALL, 2), SMALL, RULES)
    (run / "checkpoint" / "iteration_000001").mkdir(parents=True)
    for names in (".", "checkpoint", "checkpoint/iteration_000001", "policy/policy.pt"):
        assert f"did you mean {run / 'policy'}?" in refused(run / names)
    shutil.copytree(run / "policy", run / "latest")
    assert f"did you mean {run / 'policy'}?" in refused(run)


def test_weights_that_are_missing_cut_off_no_numbers_or_of_another_size_are_named(folder: Path):
    path = folder / "policy.pt"
    whole = path.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 40):
        path.write_bytes(whole[:size])
        assert str(path) in refused(folder)
    path.unlink()
    assert str(path) in refused(folder)
    torch.save(build_policy(replace(SMALL, head_dim=16), 2).state_dict(), path)
    assert str(path) in refused(folder)
    path.write_bytes(whole)
    first = next(iter(torch.load(path, weights_only=True)))
    weighed(folder, lambda weights: weights[first].mul_(float("nan")))
    assert f"{first} holds NaN" in refused(folder)


class Bomb:
    """Unpickling this would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def test_loading_runs_no_code(folder: Path, tmp_path: Path):
    with pytest.raises(PolicyFileError, match=r"os\.system.*use encoder=hierarchical"):
        encoder_name("os.system")
    sign = tmp_path / "ran"
    torch.save({"key.weight": Bomb(sign)}, folder / "policy.pt")
    refused(folder)
    (folder / "policy.pt").write_bytes(pickle.dumps(Bomb(sign), protocol=2))
    refused(folder)
    assert not sign.exists()
    pickle.loads((folder / "policy.pt").read_bytes())  # the bomb does work
    assert sign.exists()
