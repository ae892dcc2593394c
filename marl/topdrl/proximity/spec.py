"""What a picker of GPUs sees, as plain numbers: part of its policy file."""

from dataclasses import dataclass

from marl.topdrl.spec import TopDrlError


@dataclass(frozen=True, kw_only=True)
class ProximitySpec:
    """Sizes, and what a placement costs."""

    row_s: float  # times are counted in rows
    most_rows: int  # and cut here
    most_gang: int  # a larger request is shown as this
    server_weight: float  # of each server that a placement spans
    rack_weight: float  # and of each rack
    hidden: int  # width of both layers
    gpus: int = 1  # of the cluster; the network fits no other

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            TopDrlError: naming the key, the value and the rule.
        """
        for key in ("row_s", "most_rows", "most_gang", "hidden", "gpus"):
            if not getattr(self, key) > 0:
                raise TopDrlError(f"proximity.{key} is {getattr(self, key)}; it must be above 0")
        for key in ("server_weight", "rack_weight"):
            if not getattr(self, key) >= 0:
                raise TopDrlError(f"proximity.{key} is {getattr(self, key)}; it must be 0 or more")
