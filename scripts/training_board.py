"""A training run's numbers for TensorBoard: `tensorboard --logdir RUN/tensorboard`."""

import math
from collections.abc import Mapping
from pathlib import Path

BOARD = "tensorboard"
FLUSH_EVERY_S = 10  # to be watched while it trains


class Board:
    """One event file a start; a resumed run adds another, which replaces what it does again."""

    def __init__(self, folder: Path, first: int) -> None:
        """`first`: the iteration of the first row; later ones of earlier starts are dropped."""
        from tensorboardX import SummaryWriter  # only trainings need it

        path = str(folder / BOARD)
        self._writer = SummaryWriter(path, purge_step=first, flush_secs=FLUSH_EVERY_S)

    def write(self, row: Mapping[str, float | None]) -> None:
        """Numbers of one iteration, under their names in learning_curve.csv; NaN is left out."""
        step = int(row["iteration"] or 0)
        for name, value in row.items():
            if name != "iteration" and value is not None and not math.isnan(value):
                self._writer.add_scalar(name, float(value), step)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()
