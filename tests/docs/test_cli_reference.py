"""docs/reference/cli.md has every command, option and exit code, and its examples can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from holdfast.cli.app import app
from holdfast.cli.command import GLOBAL_OPTIONS
from holdfast.cli.context import FIELDS
from holdfast.cli.errors import CliExitCode
from tests.support.generated.cli_reference import PAGE, all_commands, by_hand, written

TEXT = PAGE.read_text(encoding="utf-8")
HEADINGS = re.findall(r"^### (.+)$", TEXT, re.MULTILINE)


def test_what_is_generated_on_the_page_is_what_the_commands_say() -> None:
    assert written(TEXT) == TEXT, "run `make reference`"


def test_every_remark_belongs_to_a_command() -> None:
    assert sorted(by_hand(TEXT)) == sorted(all_commands()) == sorted(HEADINGS)


def examples() -> list[str]:
    """The commands that the page shows, without what a shell does with them."""
    found = re.findall(r"holdfast [^\n]+", "\n".join(re.findall(r"^\$ (.*)$", TEXT, re.MULTILINE)))
    return [re.split(r" [<>|] | *\)", line)[0] for line in found]


@pytest.mark.parametrize("name", all_commands())
def test_every_command_has_an_example(name: str) -> None:
    assert f"$ holdfast {name}" in by_hand(TEXT)[name] or f"holdfast {name} " in by_hand(TEXT)[name]


@pytest.mark.parametrize("line", examples())
def test_every_example_can_be_typed(line: str) -> None:
    command: Any = get_command(app)
    words = shlex.split(line)[1:]
    context = command.make_context("holdfast", words, resilient_parsing=True)
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, words)
        if not hasattr(command, "commands"):
            command.make_context(name, list(words), parent=context)


@pytest.mark.parametrize("ending", CliExitCode)
def test_every_exit_code_is_in_the_table(ending: CliExitCode) -> None:
    assert re.search(rf"^\| {int(ending)} \| ", TEXT, re.MULTILINE)


@pytest.mark.parametrize("word", [*(f"--{name.replace('_', '-')}" for name in GLOBAL_OPTIONS), *FIELDS])
def test_every_common_option_and_field_of_a_context_is_in_the_table(word: str) -> None:
    assert f"`{word}`" in TEXT


def test_every_benchmark_is_described_with_what_it_gave() -> None:
    from holdfast.cli.tools import bench

    page = (Path(__file__).parents[2] / "docs" / "evidence" / "benchmarks.md").read_text(encoding="utf-8")
    wanted = [f"`holdfast bench {name}`" for name in getattr(get_command(bench.app), "commands", {})]
    assert wanted
    assert sorted(re.findall(r"^## (.+)$", page, re.MULTILINE)) == sorted(wanted)
