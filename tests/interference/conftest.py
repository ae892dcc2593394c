"""Fixtures of the interference tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def real_data() -> Path:
    """The folder of published measurements; tests that need it skip without it."""
    root = Path(__file__).parents[2]
    data_dir = root / os.environ.get("GPUYARD_DATA", "../shared/data")
    if not (data_dir / "colocation").is_dir():
        pytest.skip("no measured data: set GPUYARD_DATA to its folder")
    return data_dir
