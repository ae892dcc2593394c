"""What is reported: errors by data set, split and model, and the predictions behind them."""

from collections.abc import Iterator
from dataclasses import dataclass

from interference.evaluation.held_out import HeldOut
from interference.evaluation.judge import Errors, Judged
from interference.evaluation.score_file import Counts, Scores
from interference.models.lineup import LEARNED
from interference.rows import SoloProfiles

HELD_OUT_PAIRS = "pair"


@dataclass(frozen=True)
class Results:
    """Of held-out folds, of rows of files, or of both."""

    judged: dict[str, Judged]  # data set -> split -> model -> predictions
    errors: dict[str, Errors]  # data set, or "set/GPU type" -> split -> model -> measures
    counts: dict[str, dict[str, Counts]]  # likewise; of splits of files only
    solos: dict[str, SoloProfiles]  # data set -> profiles of its jobs

    def drawn(self, data_set: str) -> str:
        """The model that figures and lists of faults are about: the learned one if it is there."""
        names = list(next(iter(self.judged[data_set].values())))
        return LEARNED if LEARNED in names else names[-1]

    def set_of(self, part: str) -> str:
        """The data set of an entry of `errors`."""
        inside = [name for name in self.judged if part == name or part.startswith(f"{name}/")]
        return max(inside, key=len)  # a name may hold a slash itself

    def of_drawn(self, data_set: str) -> Iterator[tuple[str, HeldOut]]:
        """Each split, and the predictions of that model."""
        for split, by_model in self.judged[data_set].items():
            yield split, by_model[self.drawn(data_set)]

    def is_of_files(self, data_set: str, split: str) -> bool:
        """Whether a split is one of files; else its rows were held out by folds."""
        return split in self.counts.get(data_set, {})


def joined(folds: Results, files: Scores, solos: dict[str, SoloProfiles]) -> Results:
    """Both together; a split of a file that is called like one of the folds gets ` (file)`.

    Args:
        folds: of held-out folds; may be empty.
        files: of rows of files.
        solos: data set -> profiles, of the files' jobs too.
    """

    def name(data_set: str, split: str) -> str:
        taken = folds.errors.get(data_set, {})
        return f"{split} (file)" if split in taken else split

    judged = {key: dict(each) for key, each in folds.judged.items()}
    errors = {key: dict(each) for key, each in folds.errors.items()}
    for key, by_split in files.judged.items():
        judged.setdefault(key, {}).update({name(key, s): e for s, e in by_split.items()})
    for key, of_part in files.errors.items():
        found = {name(key, split): each for split, each in of_part.items()}
        errors.setdefault(key, {}).update(found)
    counts = {
        key: {name(key, split): each for split, each in by.items()}
        for key, by in files.counts.items()
    }
    return Results(judged, errors, counts, folds.solos | solos)
