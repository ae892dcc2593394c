"""A part of a description file: typed look-ups whose errors name file, line, key and value."""

import math
from collections.abc import Iterator

from sim.errors import TopologyError
from sim.topology.marked_yaml import Marked
from sim.topology.nearest import nearest


class Section:
    """A mapping of the file at a dotted place, such as `racks[2].servers`."""

    def __init__(self, path: str, place: str, marked: Marked, known: tuple[str, ...]) -> None:
        """Check that it is a mapping and that all its keys are among `known`."""
        self._path, self._place, self._line = path, place, marked.line
        if not isinstance(marked.value, dict):
            raise self._refusal(marked, place or "the file", "must be a mapping of keys to values")
        self._entries: dict[str, Marked] = marked.value
        for key, value in self._entries.items():
            if key not in known:
                raise TopologyError(
                    f"{path}, line {value.line}: {self.name(key)} is not a key"
                    f"{nearest(key, known)}; keys: {', '.join(known)}"
                )

    def name(self, key: str) -> str:
        """Dotted name of a key."""
        return f"{self._place}.{key}" if self._place else key

    def __contains__(self, key: str) -> bool:
        """Whether the key is there with a value."""
        return key in self._entries and self._entries[key].value is not None

    def refusal(self, key: str, rule: str) -> TopologyError:
        """The error that the value at `key` breaks `rule`."""
        return self._refusal(self._entries[key], self.name(key), rule)

    def where(self, key: str) -> str:
        """File, line and dotted name of a key that is there."""
        return f"{self._path}, line {self.entry(key).line}: {self.name(key)}"

    def wrong(self, rule: str) -> TopologyError:
        """The error that this part as a whole breaks a rule."""
        return TopologyError(f"{self._path}, line {self._line}: {self._place} {rule}")

    def entry(self, key: str) -> Marked:
        """The value at `key` with its line; an error if it is missing."""
        if key not in self:
            raise TopologyError(
                f"{self._path}, line {self._line}: {self.name(key)} is missing; give it a value"
            )
        return self._entries[key]

    def number(self, key: str, *, low: float, high: float) -> float:
        """A number from `low` to `high`; with low 0 it must be above 0."""
        value = self.entry(key).value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refusal(key, "must be a number")
        above = value > 0 if low == 0 else value >= low
        if not (above and value <= high and math.isfinite(value)):
            least = "above 0" if low == 0 else f"at least {low:g}"
            raise self.refusal(key, f"must be {least} and at most {high:g}")
        return float(value)

    def count(self, key: str, *, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        value = self.entry(key).value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refusal(key, "must be a whole number")
        if not low <= value <= high:
            raise self.refusal(key, f"must be at least {low} and at most {high}")
        return value

    def text(self, key: str) -> str:
        """A word or text that is not blank."""
        value = self.entry(key).value
        if not isinstance(value, str) or not value.strip():
            raise self.refusal(key, "must be a text; put it in quotation marks if it is a number")
        return value.strip()

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        """One of `known`."""
        value = self.text(key)
        if value not in known:
            names = ", ".join(known)
            raise self.refusal(key, f"is not known{nearest(value, known)}; known: {names}")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of texts that are not blank."""
        items = self._items(key)
        for item in items:
            if not isinstance(item.value, str) or not item.value.strip():
                raise self._refusal(item, self.name(key), "must be a text in quotation marks")
        return [item.value.strip() for item in items]

    def section(self, key: str, known: tuple[str, ...]) -> "Section":
        """The mapping at `key`."""
        return Section(self._path, self.name(key), self.entry(key), known)

    def sections(self, key: str, known: tuple[str, ...]) -> list["Section"]:
        """The list of mappings at `key`; not empty."""
        return [
            Section(self._path, f"{self.name(key)}[{at}]", item, known)
            for at, item in enumerate(self._items(key))
        ]

    def named_sections(self, key: str, known: tuple[str, ...]) -> Iterator[tuple[str, "Section"]]:
        """The mappings of a mapping at `key`, with their names; not empty."""
        marked = self.entry(key)
        if not isinstance(marked.value, dict) or not marked.value:
            raise self.refusal(key, "must be a mapping of names")
        for name, item in marked.value.items():
            yield name, Section(self._path, f"{self.name(key)}.{name}", item, known)

    def _items(self, key: str) -> list[Marked]:
        marked = self.entry(key)
        if not isinstance(marked.value, list) or not marked.value:
            raise self.refusal(key, "must be a list with at least one entry")
        return marked.value

    def _refusal(self, marked: Marked, name: str, rule: str) -> TopologyError:
        shown = "" if isinstance(marked.value, dict | list) else f" is {str(marked.value)[:60]!r};"
        return TopologyError(f"{self._path}, line {marked.line}: {name}{shown} it {rule}")
