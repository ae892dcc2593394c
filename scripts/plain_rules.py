"""Rules for plain numbers of `conf/base.yaml`, which no constructor sees as they were given."""

from collections.abc import Mapping
from typing import Any

from launch_build import section
from launch_errors import ConfigError

# key -> (whole number?, smallest legal value)
RULES = {
    "seed": (True, 0),
    "max_tenants": (True, 1),
    "restart_s": (False, 0),
    "agents.count": (True, 1),
    "agents.skew": (False, 0),
    "agents.max_forwards": (True, 0),
}


def check_plain(config: Mapping[str, Any]) -> None:
    """Refuse a plain number of the wrong kind or size.

    Raises:
        ConfigError: naming key, value and rule.
    """
    for key, (whole, least) in RULES.items():
        value = section(config, key)
        right = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not (right and least <= value < float("inf")):
            kind = "a whole number" if whole else "a finite number"
            raise ConfigError(f"{key} is {value!r}; it must be {kind} from {least}")


def check_reference_gpu(name: str, known: tuple[str, ...]) -> None:
    """Refuse a reference GPU type without profiles.

    Raises:
        ConfigError: naming the types that have some.
    """
    if name not in known:
        raise ConfigError(
            f"reference_gpu is {name!r}, for which there are no profiles; use one of "
            f"{', '.join(known)}"
        )
