"""Whether a value from YAML or the command line is of the type that a parameter asks for."""

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def misfit(value: object, annotation: Any) -> str | None:
    """What the parameter asks for, if `value` is not that; None if it fits or cannot be judged.

    Only numbers, texts, truth values, lists and unions of these are judged; a whole number is also
    a number.
    """
    kinds = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    asked = [_asked(kind) for kind in kinds]
    if None in asked or any(_fits(value, kind) for kind in kinds):
        return None
    return " or ".join(str(words) for words in asked)


def whole(value: object) -> str:
    """How to write a whole number that came as a fraction, as `1e3` does in YAML."""
    return f"; write {int(value)}" if isinstance(value, float) and value.is_integer() else ""


def _asked(kind: Any) -> str | None:
    if kind is NoneType:
        return "null"
    return "a list" if get_origin(kind) is list else PLAIN.get(kind)


def _fits(value: object, kind: Any) -> bool:
    if kind is NoneType:
        return value is None
    if get_origin(kind) is list:
        return isinstance(value, list | tuple)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind
