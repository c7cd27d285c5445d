"""Servers and credentials: from the configuration file, then the environment, then flags.

    current: production
    contexts:
      production:
        servers: [https://one.example:7400, https://two.example:7400]
        tokenFile: ~/.config/holdfast/production.token
        tenant: shop

Every command reads the file. Importing a YAML parser takes longer than everything else that `get` does before its
request. Files in the plain form that `config set` writes are therefore read by `parse_simple_yaml`, all others by the
parser.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.core.model.values.addresses import url_problem, without_user

SERVER = "http://127.0.0.1:7400"
#: Fields of a context.
FIELDS = ("servers", "token", "tokenFile", "tenant", "region", "certificate", "key", "authorities", "insecure")
_PLAIN = r"[A-Za-z/~][A-Za-z0-9/_.:~@+-]*"
_LINE = rf"(?P<indent> *)(?P<key>[A-Za-z][A-Za-z0-9_.-]*):(?: (?P<value>{_PLAIN}|\[[^\]\"'#]*\]))?"
_NOT_TEXT = frozenset(["true", "false", "yes", "no", "on", "off", "null", "y", "n"])


class CliContext(NamedTuple):
    """Servers and credentials in force, from file, environment and flags."""

    name: str = ""
    servers: tuple[str, ...] = (SERVER,)
    token: str = ""
    tenant: str = ""
    region: str = ""
    certificate: str = ""
    key: str = ""
    authorities: str = ""
    #: Allow plain http to other machines.
    insecure: bool = False


def config_path(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of the configuration file."""
    named = environment.get("HOLDFAST_CONFIG")
    if named:
        return os.path.expanduser(named)
    home = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(home, "holdfast", "config.yaml")


def resolve(
    options: GlobalOptions, environment: Mapping[str, str] = os.environ, *, with_token: bool = True
) -> CliContext:
    """Return the context in force: the file's, overridden by the environment, overridden by flags."""
    path = config_path(environment)
    kept = read_config(path)
    name, said = _select_context(kept, options.context or environment.get("HOLDFAST_CONTEXT", ""))
    if said.get("token"):
        _warn_if_open(path, os.stat(path).st_mode)
    servers = options.server or environment.get("HOLDFAST_SERVER") or said.get("servers") or SERVER
    return CliContext(
        name=name,
        servers=parse_servers(servers),
        token=_token(options, environment, said) if with_token else "",
        tenant=options.tenant or environment.get("HOLDFAST_TENANT") or said.get("tenant", ""),
        region=options.region or environment.get("HOLDFAST_REGION") or said.get("region", ""),
        certificate=os.path.expanduser(said.get("certificate", "")),
        key=os.path.expanduser(said.get("key", "")),
        authorities=os.path.expanduser(said.get("authorities", "")),
        insecure=options.insecure or _parse_bool(said.get("insecure", False), f"{path}: context {name}: insecure"),
    )


def _select_context(kept: Mapping[str, Any], asked: str) -> tuple[str, Mapping[str, Any]]:
    contexts = kept.get("contexts") or {}
    name = asked or kept.get("current") or ""
    if not name:
        return "", {}
    if name not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise usage_error(f"there is no context {name!r}; known: {known}", "`holdfast config contexts` lists them")
    return name, contexts[name] or {}


def parse_servers(said: Any) -> tuple[str, ...]:
    """Return the named servers as URLs. A user in a URL is rejected, because `-v` would print its password."""
    words = said.split(",") if isinstance(said, str) else [str(one) for one in said]
    found = tuple(one.strip().rstrip("/") for one in words if one.strip())
    for one in found:
        why = url_problem(one)
        if why:
            hint = "for example http://127.0.0.1:7400"
            known = "use a token instead: `--token-file FILE`, or `holdfast config set tokenFile=FILE`"
            raise usage_error(f"server {without_user(one)!r} {why}", known if "@" in one else hint)
    return found or (SERVER,)


def _parse_bool(said: Any, where: str) -> bool:
    """Parse a yes-or-no field, as YAML reads it or as `config set` writes it."""
    word = str(said).lower()
    if word not in ("true", "yes", "false", "no"):
        raise usage_error(f"{where}: {said!r} is neither yes nor no")
    return word in ("true", "yes")


def _token(options: GlobalOptions, environment: Mapping[str, str], said: Mapping[str, Any]) -> str:
    given = "" if options.token_file else str(environment.get("HOLDFAST_TOKEN") or said.get("token", ""))
    file = options.token_file or ("" if given else str(said.get("tokenFile", "")))
    token = _secret(file) if file else given.strip()
    if file and not token:  # Otherwise the context's certificate would authenticate instead of the named file.
        raise usage_error(
            f"the token cannot be read from {file}: it is empty", "`holdfast token create` prints a new one"
        )
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise usage_error(
            f"{file or 'HOLDFAST_TOKEN or the context'} contains no token", "a token has the form hf_NAME_SECRET"
        )
    return token


def _secret(path: str) -> str:
    path = os.path.expanduser(path)
    try:
        with open(path, encoding="utf-8") as file:
            _warn_if_open(path, os.fstat(file.fileno()).st_mode)
            return file.read().strip()
    except OSError as error:
        raise usage_error(f"the token cannot be read from {path}: {error.strerror}") from None


def _warn_if_open(path: str, mode: int) -> None:
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        print_note(f"warning: other users can read the token in {path}: `chmod 600 {path}`")


def read_config(path: str) -> dict[str, Any]:
    """Read the configuration; empty without a file. Raises `CliError` if it is invalid."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise usage_error(f"the configuration {path} cannot be read: {error}") from None
    found = parse_simple_yaml(text)
    return validate_config(_parsed(text, path) if found is None else found, path)


def validate_config(found: Any, path: str) -> dict[str, Any]:
    """Return the configuration if its structure is valid; raises `CliError` otherwise."""
    contexts = (found.get("contexts") or {}) if isinstance(found, dict) else None
    if not isinstance(contexts, dict) or not all(isinstance(one or {}, dict) for one in contexts.values()):
        raise usage_error(
            f"{path}: a configuration has `current` and `contexts`", "`holdfast config set FIELD=VALUE` writes one"
        )
    for name, said in contexts.items():
        odd = sorted(set(said or {}) - set(FIELDS))
        if odd:
            raise usage_error(f"{path}: context {name}: unknown field {odd[0]!r}", f"known: {', '.join(FIELDS)}")
    return dict(found)


def _parsed(text: str, path: str) -> Any:
    import yaml  # type: ignore[import-untyped]

    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else path
        raise usage_error(f"{place}: {getattr(error, 'problem', None) or 'not YAML'}") from None


def parse_simple_yaml(text: str) -> dict[str, Any] | None:
    """Parse block maps of plain words and of lists in brackets, two spaces per level; None for any other YAML."""
    whole: dict[str, Any] = {}
    open_maps = [whole]
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(_LINE, line)
        if match is None or len(match["indent"]) % 2:
            return None
        depth, key, value = len(match["indent"]) // 2, match["key"], _value(match["value"])
        if depth >= len(open_maps) or value is None or key in open_maps[depth] or key.lower() in _NOT_TEXT:
            return None
        open_maps[depth][key] = value
        del open_maps[depth + 1 :]
        if isinstance(value, dict):
            open_maps.append(value)
    return whole if _full(whole) else None


def _value(text: str | None) -> str | list[str] | dict[str, Any] | None:
    if text is None:
        return {}
    if text.startswith("["):
        words = [one.strip() for one in text[1:-1].split(",")]
        return words if all(_is_text(one) for one in words) else None
    return text if _is_text(text) else None


def _is_text(word: str) -> bool:
    plain = re.fullmatch(_PLAIN, word) is not None
    return plain and word.lower() not in _NOT_TEXT and not word.endswith(":") and word != "~"


def _full(found: dict[str, Any]) -> bool:
    """Return whether no map is empty: for a parser, a key without a value is null and not a map."""
    return all(bool(one) and _full(one) for one in found.values() if isinstance(one, dict))


def render_config(config: Mapping[str, Any]) -> str:
    """Return the text of a configuration, in the plain form if its values allow that."""
    lines = [f"current: {_quoted(str(config['current']))}"] if config.get("current") else []
    lines.append("contexts:" if config.get("contexts") else "contexts: {}")
    for name, said in (config.get("contexts") or {}).items():
        lines.append(f"  {_quoted(name)}:" + ("" if said else " {}"))
        for field, value in (said or {}).items():
            text = f"[{', '.join(map(_quoted, value))}]" if isinstance(value, list) else _quoted(str(value))
            lines.append(f"    {field}: {text}")
    return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    if _is_text(word):
        return word
    import json

    return json.dumps(word)
