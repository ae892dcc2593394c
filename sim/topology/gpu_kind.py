"""What a description says of a GPU type beyond its name."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuKind:
    """One GPU type of a cluster."""

    where: str  # where it was named: file, line and key, for errors; "": in the configuration
    like: str | None = None  # type whose profiles stand in for it; None: by `conf/gpu_table`
    speed: float | None = None  # over that type's
    memory_gib: float | None = None  # of one GPU

    @property
    def facts(self) -> tuple[str | None, float | None, float | None]:
        """All but where it was said."""
        return self.like, self.speed, self.memory_gib
