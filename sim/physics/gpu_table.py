"""The table of GPU types that no profile was measured on: what each is like, and how much faster.

`conf/gpu_table/shipped.yaml` is the table, with the source of each figure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.errors import PhysicsError
from sim.topology.nearest import nearest

MAKERS = ("nvidia", "amd", "instinct", "tesla", "geforce")  # words before a type's own name
KEYS = ("like", "speed", "memory_gib", "also", "source")


@dataclass(frozen=True)
class GpuFacts:
    """One type; without `like` it says no more than its memory."""

    like: str | None = None  # another type of the table, or one with profiles
    speed: float = 1.0  # work a second over that type's
    memory_gib: float | None = None  # of one GPU
    alias: bool = False  # merely another name of `like`


GpuTable = Mapping[str, GpuFacts]  # by plain name


def plain_name(gpu_type: str) -> str:
    """Letters and digits without the maker: `NVIDIA-A100-SXM4` and `a100_sxm4` are one type."""
    plain = "".join(letter for letter in gpu_type.lower() if letter.isalnum())
    for maker in MAKERS:
        plain = plain.removeprefix(maker) or plain
    return plain


def gpu_table(values: Mapping[str, Any]) -> GpuTable:
    """The table from the section `gpus` of the configuration; an entry of null is left out.

    Raises:
        PhysicsError: naming key, value and rule.
    """
    table: dict[str, GpuFacts] = {}
    for name, entry in values.items():
        if entry is None:
            continue
        _check_form(name, entry)
        facts = _facts(name, entry)
        table[plain_name(name)] = facts
        for each in entry.get("also") or ():
            other = GpuFacts(like=name, memory_gib=facts.memory_gib, alias=True)
            table[plain_name(str(each))] = other
    return table


def _check_form(name: str, entry: object) -> None:
    if not isinstance(entry, Mapping):
        raise PhysicsError(f"gpus.{name} is {entry!r}; give it {', '.join(KEYS[:3])}")
    for key in entry:
        if key not in KEYS:
            raise PhysicsError(
                f"gpus.{name}.{key} is not a key{nearest(key, KEYS)}; keys: {', '.join(KEYS)}"
            )
    if not isinstance(entry.get("also") or [], list):
        raise PhysicsError(f"gpus.{name}.also is {entry['also']!r}; it must be a list of names")
    like = entry.get("like")
    if like is not None and not isinstance(like, str | int):  # 4090 is a name, too
        raise PhysicsError(f"gpus.{name}.like is {like!r}; it must be the name of a GPU type")
    if like is None and "speed" in entry:
        raise PhysicsError(
            f"gpus.{name}.speed is {entry['speed']!r}, but gpus.{name}.like does not say of which "
            f"type's; add +gpus.{name}.like=TYPE"
        )


def _facts(name: str, entry: Mapping[str, Any]) -> GpuFacts:
    like, gib = entry.get("like"), entry.get("memory_gib")
    return GpuFacts(
        like=None if like is None else str(like),
        speed=_above_0(name, "speed", entry.get("speed", 1.0)),
        memory_gib=None if gib is None else _above_0(name, "memory_gib", gib),
    )


def _above_0(name: str, key: str, value: object) -> float:
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not (right and 0.0 < float(value) < math.inf):  # type: ignore[arg-type]
        raise PhysicsError(f"gpus.{name}.{key} is {value!r}; it must be a finite number above 0")
    return float(value)  # type: ignore[arg-type]
