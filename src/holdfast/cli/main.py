"""Entry point of `holdfast`, with a fast path for a plain `get`.

The command `get` is the most frequent one, and reading its options with typer takes longer than all its other work. A
plain `get` is therefore parsed here. Everything else (help, completion, a mistake, an option that is not in the table
below) goes to the full application. Taking the slow path is always correct; a test compares both.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

#: Options of `get` that the fast path parses: the field that each sets, and whether a value follows.
FAST_OPTIONS = {
    "--output": ("output", True),
    "-o": ("output", True),
    "--selector": ("selector", True),
    "-l": ("selector", True),
    "--all-tenants": ("all_tenants", False),
    "-A": ("all_tenants", False),
    "--sort-by": ("sort_by", True),
    "--read": ("read", True),
    "--context": ("context", True),
    "--server": ("server", True),
    "--tenant": ("tenant", True),
    "-t": ("tenant", True),
    "--region": ("region", True),
    "-r": ("region", True),
    "--token-file": ("token_file", True),
    "--timeout": ("timeout", True),
    "--insecure": ("insecure", False),
}
#: Options with a closed list of values; the first is the default.
CHOICES = {"output": ("table", "wide", "json", "yaml", "name"), "read": ("any", "linear")}


def main() -> None:
    """Run the command in `sys.argv` and exit with its code."""
    plain = parse_fast_get(sys.argv[1:])
    try:
        if plain is not None:
            sys.exit(_run_fast_get(plain))
        from holdfast.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)  # Ctrl-C during the imports.


def parse_fast_get(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the fields that a plain `get` sets; None for any other command line."""
    found: dict[str, Any] = {"words": []}
    rest = iter(words)
    if next(rest, "") != "get":
        return None
    for word in rest:
        option, equals, value = word.partition("=")
        name, takes = FAST_OPTIONS.get(option if option.startswith("--") else word, ("", False))
        if name:
            if not takes and equals:
                return None
            value = value if equals else next(rest, "-") if takes else ""
            if takes and (not value or value.startswith("-")):
                return None
            found[name] = value if takes else True
        elif word.startswith("-") or not word:
            return None
        else:
            found["words"].append(word)
    return found if found["words"] and _has_known_choices(found) else None


def _has_known_choices(found: dict[str, Any]) -> bool:
    """Return whether every option with a closed list has one of its values; else the application names them."""
    return all(found.get(name, words[0]) in words for name, words in CHOICES.items())


def _run_fast_get(found: dict[str, Any]) -> int:
    from holdfast.cli.objects import listing
    from holdfast.cli.options import GlobalOptions, run_command

    options = GlobalOptions(**{name: found.pop(name) for name in GlobalOptions._fields if name in found})
    found["output"] = listing.ListFormat(found.get("output", "table"))
    found["read"] = listing.ReadOption(found.get("read", "any"))
    return run_command(lambda: listing.get(options, listing.GetQuery(**found)))


def __getattr__(name: str) -> Any:
    """Return `app`, the full application, for tests and other entry points. Importing it takes longer."""
    if name != "app":
        raise AttributeError(name)
    from holdfast.cli.app import app

    return app


if __name__ == "__main__":
    main()
