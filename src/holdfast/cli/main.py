"""`holdfast`: where it begins.

A command line is started a thousand times a day, and `get` most of all. Reading its options with typer takes longer
than everything else that it does, so a plain `get` is understood here and done at once. Whatever is not plain (help,
completion, a mistake, an option that is not in the table below) goes to the application, which knows everything; it is
never wrong to go there. A test holds both ways against each other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

#: The options of `get` that are understood here: what they set, and whether a value follows.
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
#: The options whose values are a few words, the first of which is the default.
CHOICES = {"output": ("table", "wide", "json", "yaml", "name"), "read": ("any", "linear")}


def main() -> None:
    """Run the command in `sys.argv`, and end with its exit code."""
    plain = parse_fast_get(sys.argv[1:])
    try:
        if plain is not None:
            sys.exit(_run_fast_get(plain))
        from holdfast.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)  # while it was still importing


def parse_fast_get(words: Sequence[str]) -> dict[str, Any] | None:
    """What a plain `get` sets; None for anything else."""
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
    """Whether the words that are chosen from a few are among them; the application says which there are."""
    return all(found.get(name, words[0]) in words for name, words in CHOICES.items())


def _run_fast_get(found: dict[str, Any]) -> int:
    from holdfast.cli.objects import listing
    from holdfast.cli.options import GlobalOptions, run_command

    options = GlobalOptions(**{name: found.pop(name) for name in GlobalOptions._fields if name in found})
    found["output"] = listing.ListFormat(found.get("output", "table"))
    found["read"] = listing.ReadOption(found.get("read", "any"))
    return run_command(lambda: listing.get(options, listing.GetQuery(**found)))


def __getattr__(name: str) -> Any:
    """`app`, the whole application: for tests, and for whoever has it as an entry point. It takes longer to import."""
    if name != "app":
        raise AttributeError(name)
    from holdfast.cli.app import app

    return app


if __name__ == "__main__":
    main()
