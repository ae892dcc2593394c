"""Keys of a node of an experiment: those that it takes, and those that it needs."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuyard.launch.errors import ConfigError, nearest


def check_keys(
    place: str, found: Mapping[str, Any], known: Sequence[str], *, needed: Sequence[str]
) -> None:
    """Refuse a key that is not known, and one that is needed and missing.

    Raises:
        ConfigError: naming the place and the key.
    """
    for key in found:
        if key not in known:
            hint = nearest(str(key), known)
            fix = f"did you mean {hint}?" if hint else f"it takes {', '.join(known)}"
            raise ConfigError(f"{place}: no such key {key!r}; {fix}")
    for key in needed:
        if key not in found:
            raise ConfigError(f"{place}: has no {key}; add {key}:")
