"""A list as commands print it."""

from __future__ import annotations

import json

import pytest

from holdfast.cli.output.printer import OutputFormat
from holdfast.cli.output.report import Cell, and_more, print_report

ITEMS = [{"name": "web", "spec": {"size": 3, "labels": ["a", "b"]}}, {"name": "db", "spec": {}}]
COLUMNS: dict[str, Cell] = {
    "NAME": lambda one: str(one["name"]).upper(),
    "SIZE": "spec.size",
    "LABELS": ("spec.labels", "count"),
}


def test_a_table_has_the_columns_of_the_items_and_a_note_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(ITEMS, OutputFormat.TEXT, ITEMS, COLUMNS, empty="none", more=and_more(5, ITEMS))
    said = capsys.readouterr()
    assert said.out.splitlines() == ["NAME  SIZE  LABELS", "WEB   3     2", "DB    -     0"]
    assert said.err == "and 3 more: raise `--limit`\n"


def test_without_items_there_is_a_note_and_no_table_where_one_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    print_report([], OutputFormat.TEXT, [], COLUMNS, empty="none", more=and_more(0, []))
    print_report([], OutputFormat.TEXT, [], {"NAME": "name"})
    said = capsys.readouterr()
    assert (said.out, said.err) == ("NAME\n", "none\n")


def test_a_program_gets_the_whole_and_no_note(capsys: pytest.CaptureFixture[str]) -> None:
    print_report({"items": []}, OutputFormat.JSON, [], COLUMNS, empty="none", more="more")
    said = capsys.readouterr()
    assert (json.loads(said.out), said.err) == ({"items": []}, "")
