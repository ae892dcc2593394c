"""One file of co-location rows in the columns of any set, told by its header."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interference.readers import deepshare, gavel, lucid, own_csv
from interference.readers.table import header_of
from interference.rows import CoRows, SoloProfiles
from sim.errors import PhysicsError

Read = Callable[[Path, Path | None], tuple[CoRows, SoloProfiles]]
LEAST_LIKE = 0.5  # share of a layout's columns from which a file is taken for one of it


@dataclass(frozen=True)
class Layout:
    """Columns of a published file of pairs, or of our own schema."""

    file: str
    columns: tuple[str, ...]
    read: Read  # from the file, and the folder of the runs alone


def rows_of_file(path: Path, *, folder: Path | None) -> tuple[CoRows, SoloProfiles]:
    """Rows of a file, and solo profiles that hold those of its jobs.

    Args:
        path: in the columns of one of `LAYOUTS`.
        folder: of the published sets, whose runs alone are the only source of solo profiles; rows
            of our own schema have them in the file beside `path`.

    Raises:
        PhysicsError: naming file, line, column, value and fix.
    """
    return layout_of(path).read(path, folder)


def layout_of(path: Path) -> Layout:
    """Whose columns a file has, most of them at least.

    Raises:
        PhysicsError: if they are nobody's.
    """
    header = header_of(path)
    likeness = {
        layout.file: len(set(layout.columns) & set(header)) / len(layout.columns)
        for layout in LAYOUTS
    }
    best = max(LAYOUTS, key=lambda layout: likeness[layout.file])
    if likeness[best.file] < LEAST_LIKE:
        known = "; ".join(f"{each.file}: {', '.join(each.columns)}" for each in LAYOUTS)
        raise PhysicsError(
            f"{path}:1: the columns {', '.join(header) or '(none)'} are of no known file of "
            f"co-location rows; give those of one of these. {known}"
        )
    return best


def _published(source: str, read: Callable[..., tuple[CoRows, SoloProfiles]], alone: str) -> Read:
    def read_beside(path: Path, folder: Path | None) -> tuple[CoRows, SoloProfiles]:
        if folder is None:
            raise PhysicsError(
                f"{path}: rows of {source} need {alone}; set data_dir to the folder that holds it"
            )
        return read(folder, pairs=path)

    return read_beside


LAYOUTS = (
    Layout(
        "gavel_pairs.csv",
        gavel.PAIR_COLUMNS,
        _published(gavel.SOURCE, gavel.rows_of_gavel, gavel.ISOLATED),
    ),
    Layout(
        "lucid_pairs.csv",
        lucid.PAIR_COLUMNS,
        _published(lucid.SOURCE, lucid.rows_of_lucid, lucid.SINGLE),
    ),
    Layout(
        "deepshare_network_pairs.csv",
        deepshare.PAIR_COLUMNS,
        _published(deepshare.SOURCE, deepshare.rows_of_deepshare, deepshare.ISOLATED),
    ),
    Layout(own_csv.ROWS_FILE, own_csv.ROWS_NEEDED, lambda path, _: own_csv.rows_of_csv(path)),
)
