"""Where the user named the GPU types of a cluster, for errors about them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig

from sim.topology.gpu_kind import GpuKind
from sim.topology.topology import Topology

KEYS = ("gpu_types", "gpu_type", "type_names")  # of `conf/topology` that name types
GROUPS = ("topology", "experiment")  # whose files may hold them


def gpu_kinds(config: Mapping[str, Any], topology: Topology) -> dict[str, GpuKind]:
    """What is said of each GPU type of the cluster: by its description, else where it was named."""
    kinds = topology.gpu_kinds or (GpuKind(where=""),) * len(topology.gpu_types)
    return {
        name: kind if kind.where else replace(kind, where=_place(config, name))
        for name, kind in zip(topology.gpu_types, kinds, strict=True)
    }


def _place(config: Mapping[str, Any], gpu_type: str) -> str:
    """Key, with the file and line of the configuration or as a word of the command line."""
    key = next((key for key in KEYS if gpu_type in _names(config["topology"].get(key))), KEYS[0])
    if not HydraConfig.initialized():  # in a worker; its starter has told more
        return f"topology.{key}"
    for word in reversed(HydraConfig.get().overrides.task):
        if word.lstrip("+").startswith(f"topology.{key}"):
            return f"{word} (command line)"
    for path in _files():
        line = _line(yaml.compose(path.read_text(encoding="utf-8")), gpu_type)
        if line is not None:
            return f"{path}, line {line}: {key}"
    return f"topology.{key}"


def _names(value: object) -> tuple[object, ...]:
    if isinstance(value, Mapping):
        return tuple(value.values())
    return tuple(value) if isinstance(value, list) else (value,)


def _files() -> Iterator[Path]:
    """The chosen files, those of the user's own folders (`--config-dir`) included."""
    runtime = HydraConfig.get().runtime
    folders = [Path(source.path) for source in runtime.config_sources if source.schema == "file"]
    for group in GROUPS:
        for folder in folders:
            path = folder / group / f"{runtime.choices.get(group)}.yaml"
            if path.is_file():
                yield path


def _line(node: yaml.Node | None, gpu_type: str, *, named: bool = False) -> int | None:
    """Line, from 1, of the type below one of `KEYS`; None: it is not there.

    Args:
        node: where to look.
        gpu_type: the type.
        named: `node` stands below such a key.
    """
    if isinstance(node, yaml.ScalarNode):
        return node.start_mark.line + 1 if named and node.value == gpu_type else None
    parts: list[tuple[yaml.Node, bool]] = []
    if isinstance(node, yaml.SequenceNode):
        parts = [(part, named) for part in node.value]
    elif isinstance(node, yaml.MappingNode):
        parts = [(part, named or key.value in KEYS) for key, part in node.value]
    found = (_line(part, gpu_type, named=below) for part, below in parts)
    return next((line for line in found if line is not None), None)
