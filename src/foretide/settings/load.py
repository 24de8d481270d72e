"""Loads settings: flags override the environment, that overrides the file, and all override the defaults.

Each value keeps its origin: errors name it, and `foretide settings` shows it. Nothing unknown is ignored.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from foretide.bounds import violated
from foretide.control.policies.registry import POLICIES
from foretide.errors import FileError, ForetideError, SettingsError
from foretide.files import read_text
from foretide.secrets import masked, masked_url
from foretide.settings.reference import PREFIX, PYTHON_ONLY, SECTIONS, SETTINGS, Setting, names_in
from foretide.settings.settings import Settings

DEFAULT_FILE = "foretide.toml"
"""Read from the working folder if it exists and no other file is named."""

CONFIG = f"{PREFIX}CONFIG"
"""The variable that names the file."""

_OTHERS = "ALONE CHROMIUM CONFIG DEBUG FUZZ_SEED HOME JARS POSTGRES_FOLDER REQUIRE_CHROMIUM REQUIRE_POSTGRES"
OTHER_VARIABLES = frozenset(f"{PREFIX}{name}" for name in _OTHERS.split())
"""Variables that are not settings: other parts read them, or the project's own tests and scripts."""


@dataclass(frozen=True)
class Given:
    """A setting that was given: its value, and where."""

    setting: Setting
    value: Any
    source: str


def load_settings(
    config: Path | None = None, overrides: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Settings:
    """The settings in force.

    >>> load_settings(overrides=["guards.cooldown=30 s", "control.policies=replicas"], env={}).guards.cooldown
    30.0

    Args:
        config: The file; otherwise the one that `FORETIDE_CONFIG` names, or `foretide.toml` in the working folder.
        overrides: Flags, each such as `guards.cooldown=30`.
        env: The environment; by default that of this process.

    Raises:
        SettingsError: A setting is unknown, of the wrong type or out of bounds; the message says where it was given.
    """
    variables = os.environ if env is None else env
    found = [*_from_file(_file(config, variables)), *_from_environment(variables), *_from_flags(overrides)]
    given = {each.setting.path: each for each in found}
    made = {name: _section(name, given) for name in SECTIONS if "." not in name}
    policies = {name: made.pop(name) for name in POLICIES if name in made}
    return Settings(**made, policies=policies, origins={path: each.source for path, each in given.items()})


# ---- sources


def _from_flags(overrides: Sequence[str]) -> Iterator[Given]:
    """From flags such as `guards.cooldown=30`."""
    paths = [each.partition("=")[0].strip() for each in overrides]
    for path, override in zip(paths, overrides, strict=True):
        source = f"flag --set {path}"
        _, equals, text = override.partition("=")
        if not equals:
            raise SettingsError(f"{path} has no value; write it as 'guards.cooldown=30'", source)
        setting = _find(path, source)
        if paths.count(path) > 1:
            raise SettingsError(f"{path} is given twice by flags", source)
        yield _given(setting, text, source, is_text=True)


def _from_environment(env: Mapping[str, str]) -> Iterator[Given]:
    """From variables such as `FORETIDE_GUARDS__COOLDOWN`."""
    by_variable = {setting.variable: setting for setting in SETTINGS.values()}
    for name in sorted(env):
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES:
            continue
        source = f"environment variable {name}"
        if name not in by_variable:
            hint = _suggestion(name, [*by_variable, *OTHER_VARIABLES])
            raise SettingsError(f"unknown setting{hint}; names are {PREFIX}SECTION__NAME", source)
        yield _given(by_variable[name], env[name], source, is_text=True)


def _file(config: Path | None, env: Mapping[str, str]) -> Path | None:
    named = config or env.get(CONFIG)
    if named:
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.exists() else None


def _from_file(path: Path | None) -> Iterator[Given]:
    """From a TOML file with a table for each section."""
    if path is None or path == Path(os.devnull):  # no settings
        return
    try:
        tables = tomllib.loads(read_text(path, "settings"))
    except FileError as error:
        reason = str(error).rpartition(": ")[2]
        raise SettingsError(f"the settings file cannot be read: {reason}", str(path)) from error
    except RecursionError as error:
        raise SettingsError("the settings file is nested too deeply", str(path)) from error
    except ValueError as error:
        raise SettingsError(f"the settings file is not valid TOML: {error}", str(path)) from error
    for section, table in tables.items():
        yield from _from_table(section, table, str(path))


def _from_table(section: str, table: Any, source: str) -> Iterator[Given]:
    if section not in SECTIONS:
        raise SettingsError(_unknown_section(section), source)
    if not isinstance(table, dict):
        raise SettingsError(f"{section} must be a table [{section}], got {table!r}", source)
    for name, value in table.items():
        path = f"{section}.{name}"
        if path in SECTIONS:
            yield from _from_table(path, value, source)
        else:
            yield _given(_find(path, source), value, source, is_text=False)


def _find(path: str, source: str) -> Setting:
    """The setting of that path; an error says which there are."""
    if path in SETTINGS:
        return SETTINGS[path]
    if path in PYTHON_ONLY:
        raise SettingsError(f"{path} can be set in Python only", source)
    if path in SECTIONS:
        raise SettingsError(f"'{path}' is a section, not a setting; write it as '{path}.NAME=VALUE'", source)
    section, _, name = path.rpartition(".")
    if section not in SECTIONS:
        raise SettingsError(_unknown_section(section or name), source)
    names = names_in(section)
    hint = _suggestion(name, names)
    raise SettingsError(f"unknown setting '{path}'{hint}; section '{section}' has {', '.join(names)}", source)


def _unknown_section(name: str) -> str:
    return f"unknown section '{name}'{_suggestion(name, SECTIONS)}; sections are {', '.join(SECTIONS)}"


def _suggestion(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.75)
    return f", did you mean '{close[0]}'?" if close else ""


# ---- values


def _given(setting: Setting, value: Any, source: str, *, is_text: bool) -> Given:
    """Check the type of a value; `is_text` where it came as text, and numbers have to be read from it."""
    try:
        read = _from_text(setting, value) if is_text else _from_toml(setting, value)
    except ValidationError as error:
        raise SettingsError(masked(_problem(setting, error)), source) from None
    except ForetideError as error:
        problem = error.problem if isinstance(error, SettingsError) else f"{setting.path}: {error}"
        raise SettingsError(problem, source) from error
    return Given(setting, setting.made(read), source)


def _from_toml(setting: Setting, value: Any) -> Any:
    if setting.is_optional and isinstance(value, str) and value.lower() == "none":
        return None
    return setting.adapter.validate_json(json.dumps(value, default=str), strict=True)


def _from_text(setting: Setting, text: str) -> Any:
    """Lists are separated by commas; tables, and lists of tables, are JSON."""
    text = text.strip()
    if setting.is_optional and text.lower() == "none":
        return None
    is_list = get_origin(setting.kind) is tuple
    if _is_table(setting.kind) or (is_list and text.startswith("[")):
        return setting.adapter.validate_json(text, strict=True)
    return setting.adapter.validate_python([part.strip() for part in text.split(",")] if is_list else text)


def _is_table(kind: Any) -> bool:
    """Whether it is a table, or a list of tables."""
    return is_dataclass(next(iter(get_args(kind)), None)) or get_origin(kind) in {dict, Mapping}


_WORDS = {
    "Input should": "must",
    "a valid boolean": "true or false",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "text",
    "a valid tuple": "a list",
    "a valid array": "a list",
    "a valid dictionary": "a table",
    "an object": "a table",
}
"""Pydantic's words for types, and those of the settings reference."""


def _problem(setting: Setting, error: ValidationError) -> str:
    """The first thing that is wrong with the type of a value, in one sentence."""
    first = error.errors(include_url=False)[0]
    places = [f"entry {each + 1}" if isinstance(each, int) else f"'{each}'" for each in first["loc"]]
    where = ", ".join([setting.path, *places])
    match first["type"]:
        case "value_error":
            return f"{where}: {first['ctx']['error']}"
        case "missing":
            return f"{where} is missing"
        case "unexpected_keyword_argument":
            return f"{where} is unknown"
        case "json_invalid":
            return f"{where} must be valid JSON, got {first['input']!r}"
    wanted = re.split(", (?:unable|got)", first["msg"])[0]
    for pydantic_words, words in _WORDS.items():
        wanted = wanted.replace(pydantic_words, words)
    return f"{where} {wanted}{', or none' if setting.is_optional else ''}, got {first['input']!r}"


# ---- sections


def _section(name: str, given: Mapping[str, Given]) -> Any:
    """A section with what was given; an error names the sources that are to blame."""
    own = {path: each for path, each in given.items() if path.startswith(f"{name}.")}
    try:
        return _made(name, own)
    except SettingsError as error:
        sources = dict.fromkeys(each.source for each in _blamed(name, own))
        raise SettingsError(error.problem, "; ".join(sources)) from error


def _made(section: str, given: Mapping[str, Given]) -> Any:
    values = {each.setting.name: each.value for each in given.values() if each.setting.section == section}
    below = [path for path in SECTIONS if path.rpartition(".")[0] == section]
    return replace(SECTIONS[section], **values, **{path.rpartition(".")[2]: _made(path, given) for path in below})


def _blamed(section: str, given: Mapping[str, Given]) -> list[Given]:
    """Values out of their own bounds; otherwise those without any one of which the rest is fine; otherwise all."""
    outside = [each for each in given.values() if violated(each.setting.hint, each.value)]
    return outside or [each for path, each in given.items() if _is_fine(section, given, path)] or [*given.values()]


def _is_fine(section: str, given: Mapping[str, Given], without: str) -> bool:
    try:
        _made(section, {path: each for path, each in given.items() if path != without})
    except SettingsError:
        return False
    return True


# ---- what is in force


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """A setting in force: its value as it would be written, and where it came from."""

    setting: Setting
    value: Any
    source: str


def effective_settings(settings: Settings) -> list[EffectiveSetting]:
    """Every setting that can be written, without secrets."""
    return [
        EffectiveSetting(each, _masked(each.in_force(settings)), settings.origins.get(path, "default"))
        for path, each in SETTINGS.items()
    ]


def _masked(value: Any) -> Any:
    """A value without the secrets of addresses in it."""
    if isinstance(value, dict):
        return {name: _masked(each) for name, each in value.items()}
    return masked_url(value) if isinstance(value, str) else value
