"""Tables on standard output, and what moves on standard error."""

from functools import cache

from rich.console import Console

NARROWEST_PIPED = 180  # columns where standard output is no terminal


def table_console() -> Console:
    """Standard output, wide enough for a table where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, NARROWEST_PIPED))


@cache
def error_console() -> Console:
    """Standard error. One for all bars of a process, so that one shows below another."""
    return Console(stderr=True)
