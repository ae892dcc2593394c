"""Policy files of job pickers: weights and sizes only; loading runs no code."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from marl.topdrl.network import build_network
from marl.topdrl.spec import NetworkSpec, SightSpec, TopDrlError
from sim.report.atomic import write_atomically

FORMAT = 1
WEIGHTS, SPEC = "policy.pt", "policy.json"


def save_picker(
    folder: Path, weights: Mapping[str, Tensor], network: NetworkSpec, sight: SightSpec
) -> None:
    """Write weights, then sizes; each file appears whole or not at all."""
    sizes = {"kind": "topdrl", "network": asdict(network), "sight": asdict(sight)}
    write_policy(folder, weights, sizes)


def load_picker(folder: Path) -> tuple[nn.Module, NetworkSpec, SightSpec]:
    """The network in `folder`, ready to be asked.

    Raises:
        TopDrlError: a file is missing, broken or of another kind.
    """
    network, sight = read_picker(folder)
    module = build_network(network, sight)
    load_weights(module, folder)
    return module.eval(), network, sight


def read_picker(folder: Path) -> tuple[NetworkSpec, SightSpec]:
    """Sizes of the policy in `folder`; errors as in `load_picker`."""
    sizes = read_sizes(folder, "topdrl")
    try:
        return NetworkSpec(**sizes["network"]), SightSpec(**sizes["sight"])
    except (KeyError, TypeError) as error:
        raise TopDrlError(f"{folder / SPEC}: is no description of a policy ({error})") from error


def write_policy(folder: Path, weights: Mapping[str, Tensor], sizes: Mapping[str, Any]) -> None:
    """Weights, then `sizes` as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{WEIGHTS}.part"
    torch.save({key: value.detach().cpu() for key, value in weights.items()}, part)
    part.replace(folder / WEIGHTS)
    write_atomically(folder / SPEC, json.dumps({"format": FORMAT, **sizes}).encode())


def read_sizes(folder: Path, kind: str) -> dict[str, Any]:
    """What `write_policy` wrote beside the weights.

    Raises:
        TopDrlError: the file is missing, broken or of another kind.
    """
    path = folder / SPEC
    if not path.is_file():
        raise TopDrlError(
            f"{path} is not there; give the policy folder that scripts/train_topdrl.py wrote, with "
            f"{SPEC} and {WEIGHTS}"
        )
    try:
        sizes = json.loads(path.read_text(encoding="utf-8"))
        found = sizes["format"], sizes["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise TopDrlError(f"{path}: is no description of a policy ({error})") from error
    if found != (FORMAT, kind):
        raise TopDrlError(f"{path}: is format {found[0]}, {found[1]}; needed: {FORMAT}, {kind}")
    return dict(sizes)


def load_weights(module: nn.Module, folder: Path) -> None:
    """Fill `module` from the weights file.

    Raises:
        TopDrlError: the file is missing, truncated or of another network.
    """
    path = folder / WEIGHTS
    try:
        module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # torch raises many kinds for a truncated or foreign file
        raise TopDrlError(f"{path}: cannot be read as this policy's weights ({error})") from error
