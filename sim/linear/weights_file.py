"""Files of weights, as `scripts/tune_linear_score.py` writes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.errors import GpuYardError


def read_weights(path: str) -> Mapping[str, Any]:
    """Groups of weights, not checked yet.

    Raises:
        GpuYardError: there is no such file, or it is no YAML mapping.
    """
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise GpuYardError(
            f"scheduler.weights_file is {path}, which cannot be read: {error}"
        ) from error
    if not isinstance(values, Mapping):
        raise GpuYardError(f"{path} holds no mapping of start and forward to weights")
    return values
