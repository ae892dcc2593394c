"""The world of agents: what they see, whose turn it is, what they may do; as an environment.

This file has what the folder of any policy holds, and loads no torch.
"""

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from sim.files import write_atomically

WEIGHTS, SPEC = "policy.pt", "policy.json"


def write_policy(folder: Path, weights: Mapping[str, Any], described: Mapping[str, Any]) -> None:
    """Write tensors, then what describes them; each file appears whole or not at all."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    file = BytesIO()
    torch.save({key: value.detach().cpu() for key, value in weights.items()}, file)
    write_atomically(folder / WEIGHTS, file.getvalue())
    write_atomically(folder / SPEC, json.dumps(described).encode())
