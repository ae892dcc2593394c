"""Tables on standard output."""

from rich.console import Console

NARROWEST_PIPED = 180  # columns where standard output is no terminal


def table_console() -> Console:
    """Standard output, wide enough for a table where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, NARROWEST_PIPED))
