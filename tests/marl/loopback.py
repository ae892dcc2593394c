"""A real Ray cluster on this machine: a head and workers, each on a loopback address of its own."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAD = "127.0.0.2"
STORE_BYTES = 100_000_000
START_S = 90.0
# Nodes that die are given up after about 5 s instead of 15.
IMPATIENT = {"RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "5"}


class Loopback:
    """Starts nodes with token authentication; ends exactly the processes it has started."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gy"))  # short: sockets lie in it
        self.token = self.folder / "token"
        self.token.write_text(secrets.token_hex(32))
        with socket.create_server((HEAD, 0)) as free:
            self.address = f"{HEAD}:{free.getsockname()[1]}"
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self) -> dict[str, str]:
        """Of nodes and drivers."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token)}
        quiet = {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        return kept | auth | quiet | IMPATIENT | {"PYTHONPATH": str(ROOT)}

    def start_head(self) -> None:
        """A head without CPUs, so that nothing but the driver runs there."""
        port = self.address.rpartition(":")[2]
        words = ["--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false"]
        self._start(HEAD, *words, f"--temp-dir={self.folder / 'ray'}")

    def add_workers(self, *hosts: int) -> None:
        """Worker nodes with one CPU each, on 127.0.0.HOST.

        One after the other: two that start at once on one machine may take the same socket.
        """
        for host in hosts:
            self._start(f"127.0.0.{host}", f"--address={self.address}", "--num-cpus=1")

    def _start(self, ip: str, *words: str) -> None:
        command = [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--block",
            f"--node-ip-address={ip}", f"--object-store-memory={STORE_BYTES}",
            "--disable-usage-stats", *words,
        ]  # fmt: skip
        log = self.folder / f"{ip}.log"
        with log.open("wb") as out:
            node = self._nodes[ip] = subprocess.Popen(
                command, env=self.environment(), stdout=out, stderr=out, start_new_session=True
            )
        deadline = time.monotonic() + START_S
        while "Ray runtime started" not in log.read_text():
            assert node.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)

    def session(self, host: int) -> int:
        """That of the processes of a node on 127.0.0.HOST."""
        return self._nodes[f"127.0.0.{host}"].pid

    def kill_raylet(self, host: int) -> None:
        """What a machine that vanishes looks like to the others."""
        session = self.session(host)
        (raylet,) = [pid for pid in of_session(session) if "raylet/raylet" in command_of(pid)]
        os.kill(raylet, signal.SIGKILL)

    def close(self) -> None:
        """End every process of every node."""
        for node in reversed(self._nodes.values()):
            for pid in of_session(node.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            node.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)


def of_session(session: int) -> list[int]:
    """Processes that still run of the session that was made for a node."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if session_of(pid) == session]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def session_of(pid: int) -> int | None:
    """The session of a process that still runs."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[3])
