"""Import this first in a program that shall start at once: loading libraries makes no garbage.

Importing numba, Hydra and the compiled functions makes over a hundred thousand objects that all
stay. Python would walk them again and again, looking for cycles to free, which took an eighth of a
small run.
"""

import gc

gc.disable()


def finish_startup() -> None:
    """Collect garbage from here on, without walking again what the start has loaded."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
