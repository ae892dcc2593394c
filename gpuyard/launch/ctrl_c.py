"""Ctrl-C that arrives: libraries lose a KeyboardInterrupt at times, or make another error of it.

One that comes up inside a callback from compiled code is dropped with a line on standard error
(llvmlite does so while cached machine code is loaded), a bare `except` drops it in silence, and
OmegaConf fails with an AttributeError where it is interrupted in its own clean-up.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN_S = 0.1


@contextmanager
def insisting_on_ctrl_c(again_s: float = AGAIN_S) -> Iterator[None]:
    """Within, Ctrl-C raises KeyboardInterrupt as ever, and every `again_s` anew while it is lost.

    It is not lost while anything is done because of it: a clean-up inside `except`, `finally` or
    `__exit__` takes the time it takes. For the main thread; SIGALRM is used meanwhile. Where
    Ctrl-C is ignored (a script's `command &`), it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return

    def interrupt(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, again_s, again_s)
        raise KeyboardInterrupt

    def look(*_: object) -> None:
        if not came_of_ctrl_c(sys.exc_info()[1]):
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, look), signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in zip((signal.SIGALRM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)


def came_of_ctrl_c(error: BaseException | None) -> bool:
    """Whether `error` is a KeyboardInterrupt, or came up while one was on its way."""
    left, seen = [error], set[int]()  # OmegaConf's errors can be their own causes' causes
    while left:
        each = left.pop()
        if isinstance(each, KeyboardInterrupt):
            return True
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            left += [each.__cause__, each.__context__]
    return False
