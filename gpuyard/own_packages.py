"""The packages beside `gpuyard`, under whose names a file of the user's may lie."""

from importlib.util import find_spec
from pathlib import Path

OURS = ("sim", "gnn", "marl", "interference")


def fault() -> str:
    """Why one of them would not be ours, and what to do; empty where all are."""
    ours = Path(__file__).resolve().parents[1]
    for name in OURS:
        try:
            spec = find_spec(name)
        except ValueError:  # a module that was made by hand
            spec = None
        found = Path(spec.origin or "?").resolve() if spec else Path("?")
        if found.parent.parent != ours:
            where = f"{found} comes first" if spec else "it is not installed"
            return (
                f"GPUYard's package {name!r} cannot be imported: {where}; rename that file, "
                f"or start from another folder"
            )
    return ""
