"""The sources of settings: defaults, then a file, then the environment, then flags; the later wins.

Every value records its source. An unknown key is rejected with a suggestion, so that no setting is silently ignored.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from holdfast.core.model.values import quantities
from holdfast.wiring.config.server_settings import BY_FIELD, PREFIX, SETTINGS, ServerSettings, Setting, SettingType

#: Names the settings file when no flag does.
FILE_VARIABLE = f"{PREFIX}SETTINGS"

#: Source, field and value.
RawSetting = tuple[str, str, Any]


class BadSetting(Exception):
    """A setting has an invalid value or name; the message names its source and the remedy."""


class LoadedSettings(Struct, frozen=True):
    """The settings, and the source of each, by field."""

    settings: ServerSettings
    said_by: dict[str, str]


def load_settings(file: str, environment: Mapping[str, str], flags: Mapping[str, Any]) -> LoadedSettings:
    """Return the settings from all sources, completed. `BadSetting` for an invalid one."""
    path = file or environment.get(FILE_VARIABLE, "")
    said: list[RawSetting] = _in_file(path) if path else []
    said += _in_environment(environment)
    said += [
        (f"flag {BY_FIELD[field].flag}", field, value) for field, value in flags.items() if value not in (None, [])
    ]
    values: dict[str, Any] = {}
    said_by = dict.fromkeys(BY_FIELD, "default")
    for source, field, value in said:
        values[field] = parse_setting(BY_FIELD[field], value, source)
        said_by[field] = source
    return completed(LoadedSettings(ServerSettings(**values), said_by), environment)


def completed(gathered: LoadedSettings, environment: Mapping[str, str]) -> LoadedSettings:
    """Derive empty settings from the others. File names become absolute; relative ones are in the data folder."""
    settings, said_by = gathered.settings, dict(gathered.said_by)
    derived: dict[str, str] = {}
    data = settings.data or str(data_home(environment) / (settings.region or settings.role or "server"))
    derived["data"] = str(Path(data).expanduser().absolute())
    scheme = "https" if settings.tls_certificate else "http"
    derived["advertise"] = (settings.advertise or f"{scheme}://{settings.listen}").rstrip("/")
    derived["name"] = settings.name or derived["advertise"]
    if settings.role == "platform":
        derived["bootstrap_file"] = settings.bootstrap_file or "operator.token"
    for field in ("token_file", "bootstrap_file", "tls_certificate", "tls_key", "tls_trust"):
        named = derived.get(field) or getattr(settings, field)
        if named:
            derived[field] = str(Path(derived["data"]) / Path(named).expanduser())
    for field in derived:
        if not getattr(settings, field):
            said_by[field] = "derived from other settings"
    return LoadedSettings(replace(settings, **derived), said_by)


def data_home(environment: Mapping[str, str]) -> Path:
    """Return this user's folder for data, by the XDG base directories."""
    return Path(environment.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "holdfast"


def settings_table(gathered: LoadedSettings) -> list[tuple[str, str, str]]:
    """Return each setting with its value, as it can be written, and its source."""
    values = asdict(gathered.settings)
    return [(one.key, format_setting(one, values[one.field]), gathered.said_by[one.field]) for one in SETTINGS]


def format_setting(setting: Setting, value: Any) -> str:
    """Return the value as it is written in a file or a flag."""
    if setting.form is SettingType.DURATION:
        return quantities.format_duration(value)
    if setting.form is SettingType.BYTES and value % (1 << 20) == 0:
        return quantities.format_memory(value >> 20)
    if setting.form is SettingType.YES_NO:
        return "yes" if value else "no"
    if setting.form is SettingType.NAMES:
        return ",".join(value)
    if setting.form is SettingType.PAIRS:
        return ",".join(f"{key}={one}" for key, one in value)
    return str(value)


def parse_setting(setting: Setting, value: Any, source: str) -> Any:
    """Return the value from its form in YAML, an environment variable or a flag."""
    try:
        found = _READERS[setting.form](value)
    except (ValueError, TypeError) as error:
        raise BadSetting(f"{setting.key} ({source}): {error}") from None
    if setting.choices and found not in setting.choices:
        raise BadSetting(f"{setting.key} ({source}): {found!r} is not one of {', '.join(setting.choices)}")
    return found


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a suggested name, as the rest of a sentence; empty if none is similar."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _in_file(path: str) -> list[RawSetting]:
    try:
        found = msgspec.yaml.decode(Path(path).expanduser().read_bytes())
    except OSError as error:
        raise BadSetting(f"cannot read the settings file {path}: {error}") from None
    except msgspec.MsgspecError as error:
        raise BadSetting(f"the settings file {path} is not valid YAML: {error}") from None
    if found is None:
        return []
    if not isinstance(found, dict):
        raise BadSetting(f"the settings file {path} must contain settings by name, such as `role: platform`")
    fields = {setting.key: setting.field for setting in SETTINGS}
    for key in found:
        if key not in fields:
            hint = "\nhint: `holdfast server --show-settings` lists all of them"
            raise BadSetting(f"the settings file {path} has an unknown key {key}{suggestion(str(key), fields)}{hint}")
    return [(f"file {path}", fields[key], value) for key, value in found.items() if value is not None]


def _in_environment(environment: Mapping[str, str]) -> list[RawSetting]:
    """Read variables. An empty one counts as not set, so that a unit file can unset it."""
    fields = {setting.variable: setting.field for setting in SETTINGS}
    said = []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name == FILE_VARIABLE or not environment[name]:
            continue
        if name not in fields:
            raise BadSetting(f"the environment has an unknown setting {name}{suggestion(name, fields)}")
        said.append((f"environment {name}", fields[name], environment[name]))
    return said


def _text(value: Any) -> str:
    if isinstance(value, dict | list | bool):
        raise TypeError(f"{value!r} is not text")
    return str(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not str(value).strip().replace("_", "").isdigit():
        raise ValueError(f"{value!r} is not a count such as 50")
    return int(str(value))


def _bytes(value: Any) -> int:
    """Read `1Mi`, or a plain number of bytes."""
    text = str(value)
    return _count(text) if text.isdigit() else quantities.parse_memory(text) << 20


def _duration(value: Any) -> int:
    if not isinstance(value, str):
        raise quantities.BadQuantity(str(value), "a duration such as 30s, 5m, 1h30m or 500ms")
    return quantities.parse_duration(value)


def _yes_no(value: Any) -> bool:
    words = {"yes": True, "true": True, "1": True, "on": True, "no": False, "false": False, "0": False, "off": False}
    found = words.get(str(value).lower())
    if found is None:
        raise ValueError(f"{value!r} is neither yes nor no")
    return found


def _names(value: Any) -> tuple[str, ...]:
    parts = value if isinstance(value, list | tuple) else [value]
    return tuple(name for part in parts for name in _text(part).replace(",", " ").split())


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    """Read `a=1,b=2`, several of those, or a map."""
    if isinstance(value, dict):
        return tuple((str(key), _text(one)) for key, one in value.items())
    pairs = []
    for part in _names(value):
        key, equals, one = part.partition("=")
        if not (key and equals and one):
            raise ValueError(f"{part!r} is not a pair such as sessionLease=10s")
        pairs.append((key, one))
    return tuple(pairs)


_READERS: dict[SettingType, Callable[[Any], Any]] = {
    SettingType.TEXT: _text,
    SettingType.FILE: _text,
    SettingType.FOLDER: _text,
    SettingType.COUNT: _count,
    SettingType.BYTES: _bytes,
    SettingType.DURATION: _duration,
    SettingType.YES_NO: _yes_no,
    SettingType.NAMES: _names,
    SettingType.PAIRS: _pairs,
}
