"""Plain values to typed objects: every name, type and range is checked, and a mistake is said in one line."""

import difflib
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from nmt.errors import ConfigError


@dataclass(frozen=True)
class Range:
    """The numbers that a setting allows: low ≤ value ≤ high, or low < value where `above` is set."""

    low: float
    high: float = float("inf")
    above: bool = False

    def __contains__(self, value: float) -> bool:
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        lower = f"{'more than' if self.above else 'at least'} {self.low:g}"
        return lower if self.high == float("inf") else f"{lower} and at most {self.high:g}"


@dataclass(frozen=True)
class Absent:
    """On a setting that came after the first checkpoints: what a checkpoint means that lacks it."""

    value: Any


@dataclass(frozen=True)
class Filled:
    """On a text that may not be empty, as a shell's variable is that nobody has set."""

    def __contains__(self, value: str) -> bool:
        return value != ""

    def __str__(self) -> str:
        return "that is not empty"


@dataclass(frozen=True)
class Partly:
    """On a mapping: it holds settings of `kind`, any of which may be null, because something else then has a value for it."""

    kind: type


Loaded = TypeVar("Loaded")


def load(kind: type[Loaded], values: Mapping[str, Any], prefix: str = "") -> Loaded:
    """Turn plain mappings into a typed object, checking every name, type and range.

    Args:
        kind: the dataclass to build; fields that are dataclasses themselves are built from nested mappings.
        values: plain dicts, lists, strings, numbers, booleans and None, as read from YAML or from a checkpoint.
        prefix: where `values` stands in the whole configuration, for messages ("trainer.").

    Raises:
        ConfigError: a setting is missing or unknown, or its value is of the wrong type or out of range.
    """
    return kind(**_checked(values, get_type_hints(kind, include_extras=True), prefix))


def complete(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a checkpoint, of this version or an older one, with all that have come since.

    Args:
        kind: the dataclass that `load` shall build of them.
        values: plain, nested mappings.

    Returns:
        The same; where a setting is absent and its type hint holds `Absent`, the value given there.

    Raises:
        ConfigError: `values` is no mapping.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"a configuration is a group of settings, not {type(values).__name__}")
    completed = dict(values)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        given = values.get(name, {})
        if (group := _group(hint)) and isinstance(given, Mapping):
            completed[name] = complete(group, given)
        elif name not in values and (marks := [mark for mark in get_args(hint) if isinstance(mark, Absent)]):
            completed[name] = marks[0].value
    return completed


def unknown_setting(key: str, known: list[str]) -> str:
    """The message for a setting that does not exist, with the nearest one that does: by its whole name, its last word or its group."""
    words = {name.rpartition(".")[2]: name for name in known} | {name.partition(".")[0]: name.partition(".")[0] for name in known}
    words |= {name: name for name in known}
    close = difflib.get_close_matches(key, words, n=1, cutoff=0.6)
    return f"there is no setting {key}" + (f"; did you mean {words[close[0]]}?" if close else f"; there are {', '.join(sorted(known))}")


def settings(kind: type, prefix: str = "") -> dict[str, Any]:
    """The dotted name of every setting that `kind` holds, with its type hint."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        group, key = _group(hint), f"{prefix}{name}"
        inner = settings(group, f"{key}.") if group else {key: hint}
        found.update({key: hint | None for key, hint in inner.items()} if _is_partly(hint) else inner)
    return found


def parts(hint: Any) -> list[Any]:
    """A type hint's own type, and those of all that it is made of, marks included."""
    return [get_origin(hint) or hint, *(part for argument in get_args(hint) for part in parts(argument))]


def _group(hint: Any) -> type | None:
    """The dataclass that a setting holds, wholly or partly, or may hold beside null."""
    kinds = (part.kind if isinstance(part, Partly) else part for part in (hint, *get_args(hint)))
    return next((kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)), None)


def _is_partly(hint: Any) -> bool:
    return any(isinstance(mark, Partly) for mark in get_args(hint))


def _checked(values: Mapping[str, Any], hints: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Each value as the type that its hint asks for."""
    unknown = [name for name in values if name not in hints]
    if unknown:
        raise ConfigError(unknown_setting(f"{prefix}{unknown[0]}", [f"{prefix}{name}" for name in hints]))
    missing = [name for name in hints if name not in values]
    if missing:
        raise ConfigError(f"{prefix}{missing[0]} is not set: give {prefix}{missing[0]}=…")
    return {name: _check(values[name], hint, f"{prefix}{name}") for name, hint in hints.items()}


def _check(value: Any, hint: Any, key: str) -> Any:
    """The value as the type that `hint` asks for; a whole number is a fine float, and nothing else is converted."""
    if (group := _group(hint)) and not (value is None and type(None) in get_args(hint)):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{key} = {_shown(value)}: a group of settings is expected: {', '.join(one.name for one in fields(group))}")
        if _is_partly(hint):
            hints = {name: inner | None for name, inner in get_type_hints(group, include_extras=True).items()}
            return _checked(dict.fromkeys(hints) | dict(value), hints, f"{key}.")
        return load(group, value, f"{key}.")
    if value == "???":
        raise ConfigError(f"{key} is not set: give {key}=…")
    if not _fits(value, hint):
        raise ConfigError(f"{key} = {_shown(value)}: expected {_describe(hint)}{_suggest(value, hint) or _as_text(key, value, hint)}")
    return float(value) if float in parts(hint) and isinstance(value, int) else value


def _shown(value: Any) -> str:
    """A value as a message gives it back, cut off where what is expected would be lost behind it."""
    text = "null" if value is None else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return value in arguments
    if origin in (Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is Annotated:
        return _fits(value, arguments[0]) and all(value in limit for limit in arguments[1:] if isinstance(limit, Range | Filled))
    if origin is list:
        return isinstance(value, list) and all(_fits(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max  # which NaN is not
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _describe(hint: Any) -> str:
    """What a type hint allows, in a user's words."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(argument) for argument in arguments)
    if origin is Annotated:
        return " ".join([_describe(arguments[0]), *(str(limit) for limit in arguments[1:] if isinstance(limit, Range | Filled))])
    if origin is list:
        return "a list" if arguments == (Any,) else f"a list of {_describe(arguments[0])}"
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null", dict: "a group of settings"}
    return names.get(hint, str(hint))


def _suggest(value: Any, hint: Any) -> str:
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    close = difflib.get_close_matches(str(value), [str(choice) for choice in get_args(hint)], n=1) if get_origin(hint) is Literal else []
    return f"; did you mean {close[0]}?" if close else ""


def _as_text(key: str, value: Any, hint: Any) -> str:
    """How to give a text that looks like a number or a truth value, such as the language code "no"."""
    looks_like_one = str in parts(hint) and isinstance(value, bool | int | float)
    return f"; a text that looks like one is given as '{key}=\"…\"'" if looks_like_one else ""


def config_dir() -> Path:
    """The folder of YAML files: inside the package in a wheel, beside it in a checkout."""
    packaged = Path(__file__).resolve().parent / "configs"
    return packaged if packaged.is_dir() else packaged.parents[1] / "configs"
