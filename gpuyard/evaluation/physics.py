"""The physics of an experiment and what schedulers are told of it, from a configuration."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig

from gpuyard.launch.build import build, section
from gpuyard.launch.errors import ConfigError
from sim.errors import PhysicsError
from sim.physics.catalogue import Catalogue
from sim.physics.gpu_table import GpuTable, MoreTypes, gpu_table, more_types, plain_name, watts_of
from sim.physics.mix_table import PairTable
from sim.physics.networks import NoNetwork
from sim.physics.physics import Physics
from sim.physics.shipped_files import NoInterference
from sim.topology.topology import GpuKind, Topology

ASKED = "asked"  # reference_gpu: durations are of the GPU type that a job asks for


def physics_of(config: Mapping[str, Any], topology: Topology) -> tuple[Physics, MoreTypes]:
    """The physics over all GPU types of the cluster, and how they came into it."""
    base = build(config, "profiles")
    if hasattr(base, "catalogue"):
        base = base.catalogue()
    table = _pairs_of(config, "interference", base)
    network = build(config, "network")
    gpus = gpu_table(config.get("gpus") or {})
    asked = config["reference_gpu"]
    reference = topology.gpu_types[0] if asked in (None, ASKED) else str(asked)
    _check_reference_gpu(reference, (*topology.gpu_types, *base.gpu_types), gpus)
    more = more_types(
        base,
        (*topology.gpu_types, reference),
        table=gpus,
        kinds=gpu_kinds(config, topology),
        physics_off=table.source == "none" and isinstance(network, NoNetwork),
    )
    catalogue, pairs = more.catalogue(), more.pairs(table)
    physics = Physics(
        catalogue=catalogue,
        pairs=pairs,
        network=network.tables(catalogue, topology),
        reference_gpu=reference,
        links=network.links(catalogue, topology),
        host=build(config, "host").tables(catalogue, topology),
        mix_law=build(config, "mixes"),
        watts=watts_of(gpus, topology.gpu_types),
    )
    return physics, more


def _check_reference_gpu(name: str, known: tuple[str, ...], table: GpuTable) -> None:
    """Raise ConfigError for a type of neither the cluster, the profiles nor `conf/gpu_table`."""
    if name not in known and plain_name(name) not in table:
        raise ConfigError(
            f"reference_gpu is {name!r}, for which there are no profiles; use one of "
            f"{', '.join(dict.fromkeys(known))}, or describe it with "
            f"+gpus.{plain_name(name)}.like=v100 +gpus.{plain_name(name)}.speed=2"
        )


WITHOUT_MODEL = ("none", "oracle")  # nothing is told, or the physics itself


def believed(config: Mapping[str, Any], physics: Physics, more: MoreTypes) -> PairTable:
    """The slow-downs that schedulers are told; what fits in memory is known to everyone."""
    belief = config["belief"]
    for key in ("info", "model"):
        if key not in belief:
            raise ConfigError(
                f"belief has no {key}; its yaml file holds `info: NAME` and `model:`, and under "
                "that the _target_ and its keys (like conf/belief/linear.yaml)"
            )
    info, model = belief["info"], belief["model"]
    if (model is None) != (info in WITHOUT_MODEL):
        rule = "is null: say belief=none" if model is None else "must be null: another info has one"
        raise ConfigError(f"belief.info is {info}, belief.model {rule}")
    if info == "oracle":
        return physics.pairs
    base = more.base
    none = NoInterference().pair_table(base)
    law = none if model is None else _pairs_of(config, "belief.model", base)
    pairs = more.believed(law, physics.catalogue.gpu_types)
    return replace(pairs, feasible=physics.pairs.feasible)


def _pairs_of(config: Mapping[str, Any], key: str, catalogue: Catalogue) -> PairTable:
    """What the law of a section, maybe of a user's own, says of the catalogue."""
    law, place = build(config, key), f"{key}._target_ {section(config, key)['_target_']}"
    if not hasattr(law, "pair_table"):
        raise ConfigError(f"{place} has no pair_table(catalogue) (docs/guide.md)")
    try:
        table = law.pair_table(catalogue)
    except PhysicsError as error:
        raise type(error)(f"{key}: {error}") from error
    shape = (len(catalogue.gpu_types), len(catalogue.names), len(catalogue.names))
    if not isinstance(table, PairTable) or table.slowdown.shape != shape:
        got = table.slowdown.shape if isinstance(table, PairTable) else type(table).__name__
        raise ConfigError(
            f"{place}: pair_table gave {got}; it must give a PairTable of shape {shape}: GPU "
            "types, victims, aggressors"
        )
    return table


def physics_name(physics: Physics) -> str:
    """Where pairs and profiles come from, like `measured`, or `own pairs on shipped profiles`.

    With `interference=none` the profiles alone decide; `none`: communication and a scarce host cost
    nothing either.
    """
    pairs, profiles = physics.pairs.source, physics.catalogue.source
    if pairs == "none":
        network = physics.network
        silent = not (network.server_s.any() or network.local_s.any() or physics.host is not None)
        return "none" if silent else profiles
    return pairs if pairs == profiles else f"{pairs} pairs on {profiles} profiles"


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
    if isinstance(config["topology"], Topology):
        return "cluster.gpu_types"
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
    """Line, from 1, of the type below one of `KEYS` (`named`: we are); None: it is not there."""
    if isinstance(node, yaml.ScalarNode):
        return node.start_mark.line + 1 if named and node.value == gpu_type else None
    parts: list[tuple[yaml.Node, bool]] = []
    if isinstance(node, yaml.SequenceNode):
        parts = [(part, named) for part in node.value]
    elif isinstance(node, yaml.MappingNode):
        parts = [(part, named or key.value in KEYS) for key, part in node.value]
    found = (_line(part, gpu_type, named=below) for part, below in parts)
    return next((line for line in found if line is not None), None)
