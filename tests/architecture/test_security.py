"""`docs/operate/security.md` says what each party cannot do, and names the test that shows it: each of them exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operate" / "security.md"
#: Who may be bad.
PARTIES = (
    "An anonymous client",
    "The network",
    "A store reader",
    "A store writer",
    "An operator",
    "A region",
    "A server of the platform",
    "A scheduler",
    "An agent",
    "A tenant, through the API",
    "A tenant, from inside its process",
)


#: Not of a party: which defaults are not safe.
DEFAULTS = "Defaults"
NAMED = re.compile(r"(soak: )?`(test_\w+)`")


def sections() -> dict[str, str]:
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


@cache
def known_tests() -> dict[str, set[bool]]:
    """By name of a test: whether it is a soak test; of several of one name each is."""
    found: dict[str, set[bool]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        marks = [one.value for one in tree.body if isinstance(one, ast.Assign) and _is_named(one.targets, "pytestmark")]
        for one in tree.body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_"):
                soaks = any("pytest.mark.soak" in ast.unparse(mark) for mark in (*marks, *one.decorator_list))
                found.setdefault(one.name, set()).add(soaks)
    return found


def _is_named(targets: list[ast.expr], name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def wrongly_named(row: str, known: dict[str, set[bool]]) -> list[str]:
    """The tests that a row names which do not exist, or are soak tests where it says otherwise, or the other way."""
    return [name for soak, name in NAMED.findall(row) if known.get(name) != {bool(soak)}]


@pytest.mark.parametrize("section", [*PARTIES, DEFAULTS])
def test_every_row_of_the_page_names_tests_that_exist_and_says_which_are_soak_tests(section: str) -> None:
    known = known_tests()
    rows = [line for line in sections()[section].splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        assert NAMED.search(row.split("|")[3]), row
        assert wrongly_named(row.split("|")[3], known) == [], row


def test_a_soak_test_that_is_not_called_one_would_be_found() -> None:
    known = {"test_short": {False}, "test_long": {True}}
    assert wrongly_named("`test_short`, soak: `test_long`", known) == []
    assert wrongly_named("`test_long`, soak: `test_short`, `test_none`", known) == [
        "test_long",
        "test_short",
        "test_none",
    ]


def test_the_long_forms_of_what_strangers_send_are_named() -> None:
    soaked = {name for soak, name in NAMED.findall(sections()["An anonymous client"]) if soak}
    assert soaked == {
        "test_with_ten_thousand_connections_opened_and_left_agents_are_heard",
        "test_with_thousands_of_requests_that_never_end_agents_are_heard_and_memory_is_bounded",
        "test_a_hundred_thousand_odd_requests_find_no_fault_of_ours",
        "test_a_server_is_what_it_says_that_it_is_for_long",
    }
