"""Every setting by its key, such as `guards.cooldown`: type, bounds, default, description, variable."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Annotated, Any, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import Doc

from foretide.bounds import Bounded, Scope, allowed_choices, field_types, interval, metadata
from foretide.control.policies.registry import POLICIES
from foretide.durations import duration_text, is_duration, parse_duration
from foretide.settings.settings import Settings

PREFIX = "FORETIDE_"
_NAMES: Mapping[type, str] = {bool: "true or false", int: "whole number", float: "number", str: "text"}


@dataclass(frozen=True)
class Setting:
    """One setting: its section and name, the annotated type of its field, and the field's default."""

    section: str
    name: str
    hint: Any
    field_default: Any

    @property
    def path(self) -> str:
        """Its name in files and flags."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return PREFIX + self.path.replace(".", "__").upper()

    @property
    def scope(self) -> Scope | None:
        """Who it is for; None for everybody."""
        return next((mark for mark in metadata(self.hint) if isinstance(mark, Scope)), None)

    @property
    def description(self) -> str:
        """What it means."""
        return next(mark.documentation for mark in metadata(self.hint) if isinstance(mark, Doc))

    @cached_property
    def type(self) -> Any:
        """The type of what is written, without bounds. A part that can be switched off is written as true or false."""
        marks = [mark for mark in metadata(self.hint) if hasattr(mark, "__get_pydantic_core_schema__")]
        kind = Annotated[(self.hint.__origin__, *marks)] if marks else self.hint.__origin__
        return bool if self.is_optional and is_dataclass(_bare(kind)) else kind

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Checks and dumps what is written."""
        return TypeAdapter(self.type, config=ConfigDict(extra="forbid", allow_inf_nan=False))

    @property
    def default(self) -> Any:
        """The default as it would be written."""
        return self.written(self.field_default)

    @property
    def kind(self) -> Any:
        """The type of what is written, without none."""
        return _bare(self.type)

    @property
    def is_optional(self) -> bool:
        """Whether it may be none."""
        return type(None) in get_args(self.hint.__origin__)

    def made(self, written: Any) -> Any:
        """The value of the field for what was written."""
        if self.type is bool and self.is_optional:
            return _bare(self.hint.__origin__)() if written else None
        return written

    def written(self, value: Any) -> Any:
        """What would be written for a value of the field."""
        if self.type is bool and self.is_optional:
            return value is not None
        return self.adapter.dump_python(value, mode="json", exclude_none=True)

    def in_force(self, settings: Settings) -> Any:
        """What is in force, as it would be written."""
        section, *parts = self.path.split(".")
        value = settings.policies[section] if section in POLICIES else getattr(settings, section)
        for part in parts:
            value = getattr(value, part)
        return self.written(value)

    def shown(self, written: Any) -> str:
        """A written value for people: durations with their units."""
        if written is not None and is_duration(self.kind):
            return duration_text(parse_duration(written))
        if isinstance(written, list) and any(is_duration(each) for each in get_args(self.kind)):
            return ", ".join(duration_text(each) for each in written)
        return display(written)

    @property
    def type_name(self) -> str:
        """The type and the bounds in words."""
        choices = allowed_choices(self.hint)
        many = "list" if get_origin(self.kind) is tuple else "one"
        name = f"{many} of: {', '.join(choices)}" if choices else _type_name(self.kind)
        bounds = interval(self.hint) if self.kind in {int, float} or is_duration(self.kind) else ""
        none = "or none" if self.is_optional and self.type is not bool else ""
        return ", ".join(part for part in (name, bounds, none) if part)


def _bare(kind: Any) -> Any:
    """The type without `none`."""
    return next((each for each in get_args(kind) if each is not type(None)), kind) if _is_union(kind) else kind


def _is_union(kind: Any) -> bool:
    return type(None) in get_args(kind)


def _type_name(kind: Any) -> str:
    """A type as the reference names it.

    >>> _type_name(int), _type_name(tuple[str, ...])
    ('whole number', 'list of texts')
    """
    if is_duration(kind):
        return "duration"
    if get_origin(kind) is tuple:
        (element, _) = get_args(kind)
        if is_dataclass(element):
            return f"list of tables with {', '.join(each.name for each in fields(element))}"
        return f"list of {_type_name(element)}s"
    return _NAMES.get(kind, "table of texts")


def _sections(name: str, default: Any) -> Iterator[tuple[str, Any]]:
    """A section and those within it, each with its defaults."""
    yield name, default
    for each, hint in field_types(default).items():
        part = getattr(default, each)
        if isinstance(part, Bounded) and not _is_union(hint.__origin__) and Scope.PYTHON_ONLY not in metadata(hint):
            yield from _sections(f"{name}.{each}", part)


_DEFAULTS = Settings()
_TOP = {
    **{name: section for name, section in vars(_DEFAULTS).items() if isinstance(section, Bounded)},
    **_DEFAULTS.policies,
}
SECTIONS: Mapping[str, Any] = {path: found for name, top in _TOP.items() for path, found in _sections(name, top)}
"""The defaults of each section, by its name such as `guards` or `hot_keys.planning`."""


def _settings() -> Iterator[Setting]:
    for section, default in SECTIONS.items():
        for name, hint in field_types(default).items():
            if f"{section}.{name}" not in SECTIONS:
                yield Setting(section, name, hint, getattr(default, name))


_ALL = {setting.path: setting for setting in _settings()}
SETTINGS: Mapping[str, Setting] = {path: each for path, each in _ALL.items() if each.scope is not Scope.PYTHON_ONLY}
"""Every setting that can be written, by its path."""

PYTHON_ONLY = frozenset(_ALL) - frozenset(SETTINGS)
"""Paths of settings that have no place in a file."""


def names_in(section: str) -> list[str]:
    """The settings of a section."""
    return [setting.name for setting in SETTINGS.values() if setting.section == section]


def describe_section(section: str) -> str:
    """What a section is about: the first line of its policy's, or of its own, documentation."""
    documented = POLICIES[section].policy if section in POLICIES else type(SECTIONS[section])
    return (inspect.getdoc(documented) or "").partition("\n")[0]


def display(value: Any) -> str:
    """A written value for people; of named tables in a list only the names.

    >>> display([{"name": "lag"}, {"start": 0.5, "end": 7.0}]), display(None), display(True), display([])
    ('lag, {start = 0.5, end = 7}', 'none', 'true', '[]')
    """
    match value:
        case None | bool():
            return str(value).lower()
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case list():
            named = (each.get("name", each) if isinstance(each, dict) else each for each in value)
            return ", ".join(map(display, named)) or "[]"
        case dict():
            return f"{{{', '.join(f'{name} = {display(each)}' for name, each in value.items())}}}"
        case _:
            return str(value)
