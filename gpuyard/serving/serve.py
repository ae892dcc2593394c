"""Answer over HTTP: `python scripts/serve.py topology=medium_leaf_spine scheduler=sjf`."""

import gc
import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from gpuyard.evaluation.experiment import composition_of, experiment_of
from gpuyard.evaluation.jobs import warm_up
from gpuyard.evaluation.physics import ASKED
from gpuyard.launch.build import Rules, check_checkpoint, check_kinds, check_plain
from gpuyard.launch.errors import ConfigError
from gpuyard.launch.start import program, start
from sim.text_files import read_text
from sim.topology.outages import NO_OUTAGES

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Server


log = logging.getLogger(__name__)

SHORTEST_TOKEN = 16  # letters
MOST_PORT = 65535
SERVING: Rules = {
    "port": (True, 0),
    "max_body_bytes": (True, 1),
    "max_requests": (True, 1),
    "hold_s": (False, 0),
}


@program("serve")
def main(cfg: DictConfig) -> None:
    """Compose, warm up, answer until Ctrl-C."""
    launch = start(cfg)
    config = launch.config
    _check(config)
    token = token_of(config)
    listening = _listen(config["address"], config["port"])
    app = _app(config)
    launch.begin()
    server = _server(app, config, token)
    gc.freeze()  # what is here stays: collections pass it by, so they are short and come often
    host, port = listening.getsockname()[:2]
    where = f"[{host}]" if ":" in host else host
    listening.listen()  # who asks from now on waits no longer than the first answer takes
    print(f"answering at http://{where}:{port} (schema: /docs); Ctrl-C ends it", flush=True)
    server.run(sockets=[listening])
    log.info("stopped")


def _app(config: Mapping[str, Any]) -> "FastAPI":
    from gpuyard.serving.app import make_app
    from gpuyard.serving.board import Board
    from gpuyard.serving.decider import Decider
    from gpuyard.serving.instants import Defaults

    experiment = experiment_of(config)
    world = replace(experiment.world, outages=NO_OUTAGES)  # requests say who is away
    scheduler = composition_of(config, world.partitions)
    log.info("decides: %s", scheduler.name)
    also = experiment.setting.also
    defaults = Defaults(config["default_estimate_s"], config["default_profile"], also)
    decider = Decider(world, scheduler, defaults, experiment.seed)
    warm_up(world, scheduler, compiled=False)
    return make_app(decider, Board(decider, config["hold_s"]))


def _check(config: Mapping[str, Any]) -> None:
    """Raise ConfigError for what would fail only at the first request."""
    check_plain(config, SERVING)
    if config["reference_gpu"] == ASKED:
        raise ConfigError(
            f"reference_gpu is {ASKED!r}, for files of jobs: requests estimate as on one type"
        )
    if config["port"] > MOST_PORT:
        raise ConfigError(
            f"port is {config['port']}; the largest is {MOST_PORT}, 0 takes a free one"
        )
    check_checkpoint(config)
    if config["default_estimate_s"] is not None:
        check_plain(config, {"default_estimate_s": (False, 0)})
    check_kinds(config, str | None, "default_profile")


def token_of(config: Mapping[str, Any]) -> str | None:
    """What requests have to bear; None: nothing.

    Raises:
        ConfigError: others than this machine can ask, and there is none; or it is too short.
    """
    check_kinds(config, Path | None, "token_file")
    token, where = read_token(config["token_file"])
    if token is not None and not (len(token) >= SHORTEST_TOKEN and token.isascii()):
        raise ConfigError(
            f"{where}: the token has {len(token)} letters; it needs {SHORTEST_TOKEN} or more, of "
            "ASCII (openssl rand -hex 32 makes one)"
        )
    if token is None and not is_loopback(config["address"]):
        raise ConfigError(
            f"address is {config['address']!r}, which others can reach: requests need a token "
            f"then; set token_file=FILE or {TOKEN}, or leave address at 127.0.0.1"
        )
    return token


def is_loopback(host: object) -> bool:
    """Whether only this machine can ask there."""
    if host == "localhost":
        return True
    try:
        return ip_address(str(host)).is_loopback
    except ValueError:
        return False


def _listen(host: object, port: int) -> socket.socket:
    """A socket, taken before anything is compiled; ConfigError: the address is foreign or taken."""
    try:
        found = socket.getaddrinfo(str(host), port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise ConfigError(
            f"address={host} port={port}: {error.strerror}; choose others, port=0 takes a free one"
        ) from error
    return listening


def _server(app: "FastAPI", config: Mapping[str, Any], token: str | None) -> "Server":
    import uvicorn

    from gpuyard.serving.app import Guard, Patient

    class Quiet(uvicorn.Server):
        """Ends at Ctrl-C as a program that has done what it should."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Let SIGINT and SIGTERM end it once, and tell nobody else."""
            numbers = (signal.SIGINT, signal.SIGTERM)
            before = [signal.signal(number, self.handle_exit) for number in numbers]
            try:
                yield
            finally:
                for number, handler in zip(numbers, before, strict=True):
                    signal.signal(number, handler)

    guarded = Guard(app, token=token, max_body_bytes=config["max_body_bytes"])
    return Quiet(
        uvicorn.Config(
            guarded,
            http=Patient,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            lifespan="off",
            limit_concurrency=config["max_requests"] + 1,  # refused from so many connections on
            timeout_graceful_shutdown=5,
        )
    )


TOKEN = "GPUYARD_TOKEN"


def read_token(path: str | None) -> tuple[str | None, str]:
    """Of a file, else of the environment, and where it is from; None: there is none.

    Raises:
        ConfigError: the file cannot be read, or is no text.
    """
    if path is not None:
        text = read_text(path, ConfigError, "set token_file to a file with a token")
        return text.strip(), f"token_file={path}"
    token = os.environ.get(TOKEN)
    return None if token is None else token.strip(), TOKEN
