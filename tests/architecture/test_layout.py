"""A package is small, its docstring is its map, and the name of a public class exists once."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.architecture.checkout import SOURCE, modules_under

MODULES_MAX = 15


def packages() -> list[Path]:
    found = sorted({path.parent for path in modules_under(SOURCE) if path.name == "__init__.py"})
    assert len(found) > 60, "no packages found: is the path right?"
    return found


def inside(package: Path) -> set[str]:
    """The modules and packages right below one."""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


def test_no_package_has_more_modules_than_fit_on_a_page() -> None:
    large = {str(path): len(list(path.glob("*.py"))) - 1 for path in packages()}
    assert {path: count for path, count in large.items() if count > MODULES_MAX} == {}


def test_the_docstring_of_a_package_names_everything_in_it() -> None:
    lacking = {}
    for path in packages():
        text = ast.get_docstring(ast.parse((path / "__init__.py").read_text(encoding="utf-8"))) or ""
        named = set(re.findall(r"\w+", text))
        if inside(path) - named:
            lacking[str(path.relative_to(SOURCE))] = sorted(inside(path) - named)
    assert lacking == {}


def public_classes() -> dict[str, list[str]]:
    found = defaultdict(list)
    for path in modules_under(SOURCE):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(SOURCE)))
    return found


def test_the_name_of_a_public_class_exists_once() -> None:
    twice = {name: where for name, where in public_classes().items() if len(where) > 1}
    assert twice == {}
