"""What the design and contributor pages name exists: modules, functions, packages, links, commands."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT, SOURCE, modules_under

FOLDERS = (ROOT / "docs" / "design", ROOT / "docs" / "contribute")
PAGES = [*sorted(page for folder in FOLDERS for page in folder.glob("*.md")), ROOT / "CONTRIBUTING.md"]
TOUR = (ROOT / "docs" / "contribute" / "tour.md").read_text(encoding="utf-8")
LAYOUT = (ROOT / "docs" / "contribute" / "layout.md").read_text(encoding="utf-8")

#: A folder, or a file with an ending: `core/agent/`, `tests/golden/`, `core/agent/plan.py`.
_PATH = re.compile(r"`((?:[a-z_.]+/)+(?:[\w*.-]+\.(?:py|md|yaml|toml))?)`")
_CALL = re.compile(r"`(?:(\w+)\.)?(\w+)\(\)`(?: in\s+`([\w/]+\.py)`)?")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def is_there(path: str) -> bool:
    """Below the package, below the project, or (the parts of a ledger) in each of the two ledgers."""
    path = re.sub(r"\b[A-Z]+\b", "*", path)
    roots = [SOURCE, ROOT]
    ledgers = [SOURCE / "core" / "platform", SOURCE / "core" / "region"]
    return any(list(root.glob(path.rstrip("/"))) for root in roots) or all(
        list(ledger.glob(path.rstrip("/"))) for ledger in ledgers
    )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    assert [path for path in _PATH.findall(text_of(page)) if not is_there(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_names_one_path_twice_in_a_row(page: Path) -> None:
    assert re.findall(r"`([\w/.]+/[\w/.]+)`(?:,| and)\s+`\1`", text_of(page)) == []


def test_every_test_that_a_page_names_exists() -> None:
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", text_of(page))}
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    known = {path.stem for path in tests}.union(*(re.findall(r"def (test_\w+)", text_of(path)) for path in tests))
    assert len(named) > 15
    assert named - known == set()


def test_paths_are_found() -> None:
    assert sum(len(_PATH.findall(text_of(page))) for page in PAGES) > 300
    assert _PATH.findall("see `core/nowhere/` and `core/agent/plans.py`") == ["core/nowhere/", "core/agent/plans.py"]
    assert not is_there("core/nowhere/")
    assert not is_there("core/agent/plans.py")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    links = [link for link in _LINK.findall(text_of(page)) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


# Names of the tour


@cache
def definitions() -> dict[str, dict[str, set[str]]]:
    """By module: its functions, under the empty name, and by class its methods, defined or made of a function."""
    found: dict[str, dict[str, set[str]]] = {}
    for path in modules_under(SOURCE):
        names: dict[str, set[str]] = {"": set()}
        for node in ast.parse(text_of(path)).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names[""].add(node.name)
            elif isinstance(node, ast.ClassDef):
                defined = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
                made = [
                    one.targets[0]
                    for one in node.body
                    if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call)
                ]
                names[node.name] = defined | {one.id for one in made if isinstance(one, ast.Name)}
        found[path.relative_to(SOURCE).as_posix()] = names
    return found


def is_defined(owner: str, name: str, module: str) -> bool:
    known = definitions()
    modules = [known[module]] if module in known else [] if module else list(known.values())
    return any(name in names.get(owner, ()) for names in modules)


@pytest.mark.parametrize("call", sorted(set(_CALL.findall(TOUR))), ids=lambda call: ".".join(filter(None, call[:2])))
def test_every_function_and_method_of_the_tour_exists(call: tuple[str, str, str]) -> None:
    assert is_defined(*call), call


def test_every_class_of_the_tour_exists() -> None:
    named = set(re.findall(r"`([A-Z][a-z]\w+)` (?:in|\()", TOUR))
    assert len(named) > 12
    assert named - {one for names in definitions().values() for one in names} == set()


def test_a_function_that_is_not_there_would_be_found() -> None:
    assert len(_CALL.findall(TOUR)) > 40
    assert _CALL.findall("`Guard.fly()` and `plan()` in `core/agent/plan.py`") == [
        ("Guard", "fly", ""),
        ("", "plan", "core/agent/plan.py"),
    ]
    assert is_defined("", "plan", "core/agent/plan.py")
    assert not is_defined("Guard", "fly", "")
    assert not is_defined("", "plan", "core/agent/processes.py")


# The layout


def test_the_layout_lists_every_package_of_the_first_two_levels() -> None:
    packages = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("__init__.py")} - {Path()}
    first = {path for path in packages if len(path.parts) == 1}
    second = {path for path in packages if len(path.parts) == 2 and path.parts[0] in ("core", "host")}
    lacking = [str(path) for path in sorted(first | second) if f"`{path}/" not in LAYOUT]
    assert lacking == []


# Commands


def commands(page: Path) -> list[str]:
    lines = [line for language, block in _BLOCK.findall(text_of(page)) if not language for line in block.splitlines()]
    return [re.split(r" {3,}", line)[0].strip() for line in lines if line.startswith(("make ", "holdfast "))]


def test_every_make_command_of_a_page_is_a_target() -> None:
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = {line.split()[1] for page in PAGES for line in commands(page) if line.startswith("make ")}
    assert {"test", "check", "soak"} <= named
    assert named - targets == set()


def test_the_commands_of_the_simulators_page_work(tmp_path: Path) -> None:
    [page] = [page for page in PAGES if page.name == "simulator.md" and page.parent.name == "contribute"]
    lines = [line for line in commands(page) if line.startswith("holdfast ")]
    assert len(lines) == 5
    for line in lines:
        words = shlex.split(line.replace("1..200", "1..4").replace("zone.hfr", str(tmp_path / "zone.hfr")))[1:]
        found = subprocess.run(
            [sys.executable, "-m", "holdfast.cli.main", *words],
            env=dict(os.environ), cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert found.returncode == 0, (line, found.stdout[-2000:], found.stderr[-2000:])
        assert found.stdout.strip(), line
