"""Policy files: weights and sizes only; loading runs no code."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import cast

import torch

from marl.codec.layout import CodecRules
from marl.policy.build import PolicySpec, build_policy
from marl.policy.pair_score import PairScorePolicy
from marl.schedulers.shipped import SHIPPED
from sim.errors import GpuYardError

FORMAT = 4
WEIGHTS, SPEC = "policy.pt", "policy.json"
BEST = "policy"  # in the folder of a training run


class PolicyFileError(GpuYardError):
    """A policy folder is missing, truncated or foreign."""


def save_policy(folder: Path, policy: PairScorePolicy, spec: PolicySpec, rules: CodecRules) -> None:
    """Write weights, then sizes; each file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {key: value.detach().cpu() for key, value in policy.state_dict().items()}
    part = folder / f"{WEIGHTS}.part"
    torch.save(weights, part)
    part.replace(folder / WEIGHTS)
    text = json.dumps({"format": FORMAT, "policy": spec.as_dict(), "rules": asdict(rules)})
    part = folder / f"{SPEC}.part"
    part.write_text(text, encoding="utf-8")
    part.replace(folder / SPEC)


def read_spec(folder: Path) -> tuple[PolicySpec, CodecRules]:
    """Sizes of the policy in `folder`."""
    path = folder / SPEC
    if not path.is_file():
        found = _policy_near(folder)
        hint = "" if found is None else f"; did you mean {found}?"
        raise PolicyFileError(
            f"{path} is not there{hint}; give the folder that training wrote, with {SPEC} and "
            f"{WEIGHTS}, or a policy that comes along: {', '.join(SHIPPED)}"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise PolicyFileError(
                f"{path}: format {content['format']}, this version reads {FORMAT}"
            )
        spec, rules = PolicySpec(**content["policy"]), CodecRules(**content["rules"])
        _check_kinds(spec)
        _check_kinds(rules)
        return spec, rules
    except (ValueError, KeyError, TypeError) as error:
        raise PolicyFileError(f"{path}: is not a policy description ({error})") from error


def _policy_near(folder: Path) -> Path | None:
    """A policy in or beside what was named: the best one of a run (`policy`) before its latest."""
    near = [folder / BEST, folder.parent / BEST, folder.parent.parent / BEST, folder.parent]
    near += [path.parent for path in sorted(folder.glob(f"*/{SPEC}"))]
    return next((path for path in near if (path / SPEC).is_file()), None)


def _check_kinds(values: PolicySpec | CodecRules) -> None:
    """Raise ValueError if a field is not of its kind; whole numbers are sizes.

    They are at least 1, or 0 where that is what a policy of before has.
    """
    for field in fields(values):
        value = getattr(values, field.name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = {
            bool: isinstance(value, bool),
            int: type(value) is int and value >= (field.default != 0),
            str: isinstance(value, str),  # the description itself knows the names
        }
        if not fits.get(cast(type, field.type), number):
            kind = getattr(field.type, "__name__", field.type)
            raise ValueError(f"{field.name} is {value!r}, it must be a valid {kind}")


def load_policy(folder: Path, num_racks: int) -> tuple[PairScorePolicy, PolicySpec, CodecRules]:
    """The network in `folder`, for partitions of up to `num_racks` racks."""
    spec, rules = read_spec(folder)
    policy = build_policy(spec, num_racks)
    path = folder / WEIGHTS
    try:
        policy.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # torch raises many kinds for a truncated or foreign file
        raise PolicyFileError(
            f"{path}: cannot be read as this policy's weights ({error})"
        ) from error
    return policy.eval(), spec, rules
