"""`docs/design/rules.md` has every rule that code, tests and documents refer to."""

from __future__ import annotations

import re

from tests.architecture.checkout import ROOT

PAGE = ROOT / "docs" / "design" / "rules.md"
_CITED = re.compile(r"\bRULES (\d+(?:(?:, | and |, and )\d+)*)")
_FILE = re.compile(r"test_rule_(\d\d)_")


def cited(text: str) -> set[int]:
    """The numbers of the rules that a text refers to."""
    return {int(number) for found in _CITED.findall(text) for number in re.findall(r"\d+", found)}


def rules() -> list[int]:
    return [int(number) for number in re.findall(r"^(\d+)\. \*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)]


def references() -> dict[str, set[int]]:
    """By file: the rules that it refers to, in its text or by its name."""
    found = {}
    for folder in ("src", "tests", "docs"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".yaml", ".toml"):
                by_name = {int(number) for number in _FILE.findall(path.name)}
                found[path.relative_to(ROOT).as_posix()] = cited(path.read_text(encoding="utf-8")) | by_name
    return found


def test_rules_are_numbered_without_a_gap() -> None:
    assert rules() == list(range(1, len(rules()) + 1))


def test_every_rule_that_is_referred_to_is_on_the_page() -> None:
    known, found = set(rules()), references()
    assert {file: sorted(numbers - known) for file, numbers in found.items() if numbers - known} == {}
    assert sum(map(bool, found.values())) > 100, "they are looked for where they are"


def test_a_rule_that_is_not_there_would_be_found() -> None:
    word = "RULES"  # put in, so that this file does not find itself
    assert cited(f"by {word} 7, 8 and 99: see {word} 3.") == {7, 8, 99, 3}
    assert cited("from book import RULES as PLATFORM_RULES") == set()
