"""Walking through a replay with single keys."""

import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sim.arrays import IntArray
from sim.report.replay import Replay

NEXT, PREVIOUS, QUIT = ("n", " ", "\n", "\r"), ("p",), ("q", "\x04", "")
HELP = "n next, p previous, q quit"


def walk(replay: Replay, stops: IntArray, show: Callable[[int], None]) -> None:
    """Show the event at each stop; keys move between stops until the end or `q`."""
    at = 0
    with single_keys() as handle:
        while at < len(stops):
            event = int(stops[at])
            replay.go_to(event + 1)
            show(event)
            print(f"{at + 1}/{len(stops)}: {HELP}", flush=True)
            key = _key(handle)
            if key in QUIT:
                return
            at = max(at - 1, 0) if key in PREVIOUS else at + 1


@contextmanager
def single_keys() -> Iterator[int]:
    """The terminal on standard input, giving keys without waiting for a line."""
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle, termios.TCSADRAIN)  # keys typed ahead stay
        yield handle
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


def _key(handle: int) -> str:
    """The next key that means something; "" at the end of input."""
    key = os.read(handle, 1).decode(errors="replace")
    while key not in (*NEXT, *PREVIOUS, *QUIT):
        key = os.read(handle, 1).decode(errors="replace")
    return key
