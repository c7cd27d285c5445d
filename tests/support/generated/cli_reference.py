"""docs/reference/cli.md: headings, help, usage and options from the commands; examples and remarks by hand.

What stands between `<!-- by hand: NAME -->` and `<!-- end of NAME -->` is kept as it is.

python -m tests.support.generated.cli_reference    writes the rest anew
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from typer.main import get_command

from holdfast.cli.app import COMMANDS
from holdfast.cli.command import GLOBAL_OPTIONS
from holdfast.wiring.config.server_settings import SETTINGS
from tests.support.generated.markdown import FOLDER, filled, replaced, table

PAGE = FOLDER / "cli.md"
BEGINS, ENDS = "<!-- commands: written by `make reference` -->", "<!-- end of commands -->"
#: By folder of `holdfast.cli`, in which each group of commands lies.
GROUPS = {
    "objects": "Objects",
    "workloads": "Workloads",
    "operations": "Operations",
    "setup": "Access and configuration",
    "processes": "Servers, schedulers, agents",
    "tools": "Simulator and benchmarks",
}
#: Commands whose own commands are listed in one table: each has a page of its own elsewhere.
LISTED = ("bench",)


def all_commands() -> dict[str, Any]:
    """By full name, in the order of the table: every command that is described."""
    found: dict[str, Any] = {}
    for name, (module, _) in COMMANDS.items():
        command = get_command(import_module(f"holdfast.cli.{module}").app)
        inner = {} if name in LISTED else getattr(command, "commands", {})
        found |= {f"{name} {one}": each for one, each in inner.items()} or {name: command}
    return found


def by_hand(page: str) -> dict[str, str]:
    """By name of a command: what people wrote of it."""
    found = re.findall(r"<!-- by hand: ([a-z -]+) -->\n(.*?)\n<!-- end of \1 -->", page, re.DOTALL)
    return dict(found)


def written(page: str) -> str:
    """The page with all that is generated as it should be."""
    return replaced(page, BEGINS, ENDS, "\n".join(_sections(by_hand(page))))


def _sections(kept: dict[str, str]) -> Iterator[str]:
    commands = all_commands()
    for folder, title in GROUPS.items():
        names = [name for name in commands if COMMANDS[name.split()[0]][0].startswith(f"{folder}.")]
        links = ", ".join(f"[{name}](#{name.replace(' ', '-')})" for name in names)
        yield filled(f"- {title}: {links}", indent="  ")
    yield ""
    for folder, title in GROUPS.items():
        yield f"## {title}\n"
        for name, command in commands.items():
            if COMMANDS[name.split()[0]][0].startswith(f"{folder}."):
                yield from _section(name, command, kept.get(name, ""))


def _section(name: str, command: Any, kept: str) -> Iterator[str]:
    yield f"### {name}\n"
    inner = getattr(command, "commands", {})
    text = COMMANDS[name][1] if inner else command.help
    yield filled(_line(text)) + "\n"
    yield f"<!-- by hand: {name} -->\n{kept}\n<!-- end of {name} -->\n"
    if inner:
        yield from table(("command", "effect"), [(f"`{name} {one}`", _line(each.help)) for one, each in inner.items()])
        return
    params = [one for one in command.params if _is_own(one, name)]
    words = [one.metavar or one.name.upper() for one in params if one.param_type_name == "argument"]
    options = " [OPTIONS]" if any(one.param_type_name == "option" for one in params) or name == "server" else ""
    yield f"Usage: `{' '.join(['holdfast', name, *words])}{options}`\n"
    rows = [_row(one) for one in params if one.param_type_name == "option"]
    if rows:
        yield from table(("option", "default", "meaning"), rows)
    if name == "server":
        yield "Every [setting of a server](settings.md) is an option, too.\n"


def _is_own(param: Any, command: str) -> bool:
    """Whether an option is the command's own: not one of all commands, and no setting; those have tables elsewhere."""
    of_processes = COMMANDS[command.split()[0]][0].startswith(("processes.", "tools."))
    shared = param.name in GLOBAL_OPTIONS and not of_processes
    settings = {setting.flag for setting in SETTINGS} if command == "server" else set()
    return not shared and not settings & set(param.opts) and param.name != "help"


def _row(option: Any) -> tuple[str, str, str]:
    value = "" if option.is_flag or option.count else f" {option.metavar or _choices(option)}"
    default = option.default
    shown = "" if default in (None, "", False, 0, (), []) or not isinstance(default, str | int) else f"`{default}`"
    return (f"`{', '.join(option.opts)}{value}`".replace("|", "/"), shown, _line(option.help or ""))


def _choices(option: Any) -> str:
    choices = getattr(option.type, "choices", None)
    return "/".join(str(getattr(one, "value", one)) for one in choices) if choices else str(option.type.name).upper()


def _line(text: str) -> str:
    return " ".join(re.split(r"\n\s*\n", text)[0].split())


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
