"""Where the user named the GPU types of a cluster, for errors about them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig

from sim.topology.gpu_kind import GpuKind
from sim.topology.topology import Topology

CONF = Path(__file__).resolve().parents[1] / "conf" / "topology"
KEYS = ("gpu_types", "gpu_type", "type_names")  # of `conf/topology` that name types


def gpu_kinds(config: Mapping[str, Any], topology: Topology) -> dict[str, GpuKind]:
    """What is said of each GPU type of the cluster: by its description, else where it was named."""
    if topology.gpu_kinds:
        return dict(zip(topology.gpu_types, topology.gpu_kinds, strict=True))
    return {name: GpuKind(where=_place(config, name)) for name in topology.gpu_types}


def _place(config: Mapping[str, Any], gpu_type: str) -> str:
    """Key, and the file and line of `conf/topology`, or the word of the command line."""
    key = next((key for key in KEYS if gpu_type in _names(config["topology"].get(key))), KEYS[0])
    if not HydraConfig.initialized():  # in a worker; its starter has told more
        return f"topology.{key}"
    hydra = HydraConfig.get()
    words = [
        word for word in hydra.overrides.task if word.lstrip("+").startswith(f"topology.{key}")
    ]
    if words:
        return f"{words[-1]} (command line)"
    path = CONF / f"{hydra.runtime.choices.get('topology')}.yaml"
    line = _line(path, key)
    return f"topology.{key}" if line is None else f"{path}, line {line}: {key}"


def _names(value: object) -> tuple[object, ...]:
    if isinstance(value, Mapping):
        return tuple(value.values())
    return tuple(value) if isinstance(value, list) else (value,)


def _line(path: Path, key: str) -> int | None:
    """Line of a top-level key, from 1; None: no such file or key."""
    if not path.is_file():
        return None
    node = yaml.compose(path.read_text(encoding="utf-8"))
    keys = [entry for entry, _ in node.value if entry.value == key]
    return keys[0].start_mark.line + 1 if keys else None
