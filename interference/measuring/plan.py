"""Which loops are measured alone and together."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Literal

from interference.measuring.errors import MeasureError
from sim.topology.option_rules import nearest

PAIR = 2
Groups = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Group:
    """Profiles that run at the same time; one alone is measured to compare with."""

    number: int  # as in the rows
    members: tuple[str, ...]  # "model/batch", in the order of their names

    @property
    def alone(self) -> bool:
        """Whether there is nobody else."""
        return len(self.members) == 1


def plan(profiles: Sequence[str], pairs: Groups | Literal["all"], mixes: Groups) -> list[Group]:
    """Every profile alone, then pairs, then larger mixes; each once.

    Args:
        profiles: "model/batch".
        pairs: of profiles, or "all" of them, each profile beside itself included.
        mixes: of three profiles or more.

    Raises:
        MeasureError: naming the key and the profile or the group that cannot be.
    """
    for name in profiles:
        batch_of(name)
    chosen = list(combinations_with_replacement(profiles, PAIR)) if pairs == "all" else pairs
    for members in chosen:
        if len(members) != PAIR:
            raise MeasureError(f"pairs: {list(members)} has not two profiles; see mixes")
    for members in mixes:
        if len(members) <= PAIR:
            raise MeasureError(f"mixes: {list(members)} has fewer than three profiles; see pairs")
    for members in (*chosen, *mixes):
        _check_known(members, profiles)
    groups = [*((name,) for name in profiles), *(tuple(sorted(m)) for m in (*chosen, *mixes))]
    return [Group(number, members) for number, members in enumerate(dict.fromkeys(groups))]


def batch_of(profile: str) -> int:
    """The batch size in "model/batch".

    Raises:
        MeasureError: there is none.
    """
    model, slash, batch = profile.rpartition("/")
    if not (model and slash and batch.isdigit() and int(batch) > 0) or "+" in model:
        raise MeasureError(f"profiles: {profile!r} is no model/batch without a +, like mlp/32")
    return int(batch)


def model_of(profile: str) -> str:
    """The model in "model/batch"."""
    return profile.rpartition("/")[0]


def _check_known(members: Sequence[str], profiles: Sequence[str]) -> None:
    for name in members:
        if name not in profiles:
            hint = nearest(name, profiles) or f"; there are {', '.join(profiles)}"
            raise MeasureError(f"{list(members)}: {name!r} is not among profiles{hint}")
