"""Checks that the parameters of the generator share."""

from collections.abc import Sequence

import numpy as np

from sim.errors import TraceError

ROUNDING = 0.01 + 1e-9  # shares in a yaml file are rounded


def check_spec(key: str, value: object, good: bool, rule: str) -> None:
    """Raise a TraceError that names key, value and rule unless `good`."""
    if not good:
        raise TraceError(f"workload.spec.{key} is {value}; it {rule}")


def check_factors(key: str, factors: Sequence[float], length: int) -> None:
    """Raise a TraceError unless there are `length` relative rates, none negative, not all 0."""
    if len(factors) != length or not min(factors) >= 0 or not 0 < sum(factors) < np.inf:
        raise TraceError(
            f"workload.spec.{key} has {len(factors)} entries {list(factors)}; it needs {length}, "
            f"none below 0, not all 0"
        )


def check_shares(what: str, shares: Sequence[float]) -> None:
    """Raise a TraceError unless the shares sum to 1, within a rounding of 1 %."""
    if not (len(shares) and min(shares) >= 0 and abs(float(np.sum(shares)) - 1.0) <= ROUNDING):
        raise TraceError(f"{what} is {list(shares)}; shares must be 0 or more and sum to 1")


def check_choice(key: str, values: Sequence[object], probs: Sequence[float]) -> None:
    """Raise a TraceError unless every value has a share and the shares sum to 1."""
    check_spec(
        f"{key} values", list(values), len(values) == len(probs) > 0,
        f"must have one entry for each of its {len(probs)} shares",
    )  # fmt: skip
    check_shares(f"workload.spec.{key} shares", probs)
