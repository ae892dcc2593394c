"""The token that requests bear, for those who ask and for who is asked."""

import os
from pathlib import Path

TOKEN = "GPUYARD_TOKEN"


def read_token(path: str | None) -> tuple[str | None, str]:
    """Of a file, else of the environment, and where it is from; None: there is none.

    Raises:
        OSError: the file cannot be read.
    """
    if path is not None:
        return Path(path).read_text(encoding="utf-8").strip(), f"token_file={path}"
    told = os.environ.get(TOKEN)
    return None if told is None else told.strip(), TOKEN
