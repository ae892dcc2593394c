"""Settings and fixtures that every test shares."""

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.once import look_up_once

# Derandomised: a run tells the same story twice. No deadline: the first kernel call compiles.
settings.register_profile(
    "gpuyard",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("gpuyard")

# Tests run one a core: libraries that would share a core among threads wait for each other, and
# processes that a program starts by itself import all again. Tests of several say how many.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")

# Bytecode is kept whatever the shell says: each process started would take half a second longer.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell without job control starts background commands with SIGINT ignored, and programs that
# tests start would inherit that: Ctrl-C would not reach them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure() -> None:
    """Importing and collecting make millions of objects that stay: looking through them is idle."""
    gc.disable()
    look_up_once()


def pytest_collection_finish() -> None:
    """From here on collect what tests leave, now and then, and pass by what was there before."""
    gc.enable()
    gc.set_threshold(20_000)
    gc.freeze()


@pytest.fixture
def real_data() -> Path:
    """The folder of published measurements; tests that need it skip without it."""
    root = Path(__file__).resolve().parents[1]
    data_dir = (root / os.environ.get("GPUYARD_DATA", "../shared/data")).resolve()
    if not (data_dir / "colocation").is_dir():
        pytest.skip("no measured data: set GPUYARD_DATA to its folder")
    return data_dir
