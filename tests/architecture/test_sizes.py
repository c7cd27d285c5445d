"""Modules and functions stay small enough to read in one sitting, or say why not.

A module has at most 250 lines, or 400 if its docstring has a line `Size: <reason>`. A function has at most
60, signature and docstring included, or more if its def line, or the line above, has a comment
`# long: <reason>`.
"""

import ast
import re
from collections.abc import Iterator

from tests.architecture.checkout import SOURCE, Finding, modules_under, name_of, none_of

MODULE_LINES = 250
MODULE_LINES_WITH_REASON = 400
FUNCTION_LINES = 60

SIZE_REASON = re.compile(r"^\s*Size: *\S", re.MULTILINE)
LONG_REASON = re.compile(r"#\s*long: *\S")


def oversized(text: str, file: str) -> Iterator[Finding]:
    tree = ast.parse(text, filename=file)
    lines = text.splitlines()
    yield from oversized_module(tree, lines, file)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from oversized_function(node, lines, file)


def oversized_module(tree: ast.Module, lines: list[str], file: str) -> Iterator[Finding]:
    has_reason = SIZE_REASON.search(ast.get_docstring(tree) or "") is not None
    limit = MODULE_LINES_WITH_REASON if has_reason else MODULE_LINES
    if len(lines) > limit:
        advice = "split it" if has_reason else "split it, or give the reason in its docstring: `Size: ...`"
        yield Finding(file, 1, f"{len(lines)} lines in the module, {limit} allowed; {advice}")


def oversized_function(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str], file: str) -> Iterator[Finding]:
    assert node.end_lineno is not None
    length = node.end_lineno - node.lineno + 1
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    places = {node.lineno, node.lineno - 1, first - 1} - {0}
    has_reason = any(LONG_REASON.search(lines[line - 1]) for line in places)
    if length > FUNCTION_LINES and not has_reason:
        yield Finding(
            file,
            node.lineno,
            f"{length} lines in {node.name}(), {FUNCTION_LINES} allowed; "
            "split it, or give the reason on its def line: `# long: ...`",
        )


def test_modules_and_functions_are_small_or_say_why_not() -> None:
    modules = modules_under(SOURCE)
    assert modules, "no modules found: is the path right?"
    none_of(f for path in modules for f in oversized(path.read_text(encoding="utf-8"), name_of(path)))


def a_module(lines: int, docstring: str = '"""A module."""') -> str:
    body = docstring.splitlines()
    return "\n".join([*body, *("x = 1" for _ in range(lines - len(body)))]) + "\n"


def a_function(lines: int, above: str = "", beside: str = "") -> str:
    return f"{above}def f() -> None:{beside}\n" + "    x = 1\n" * (lines - 1)


def findings(text: str) -> list[str]:
    return [f"{line}: {why.split(',')[0]}" for _, line, why in oversized(text, "m.py")]


def test_a_module_of_251_lines_is_found() -> None:
    assert findings(a_module(250)) == []
    assert findings(a_module(251)) == ["1: 251 lines in the module"]


def test_a_module_with_a_reason_may_have_400_lines_and_no_more() -> None:
    reason = '"""A table.\n\nSize: one row for each edge.\n"""'
    assert findings(a_module(400, reason)) == []
    assert findings(a_module(401, reason)) == ["1: 401 lines in the module"]


def test_a_size_line_without_a_reason_does_not_count() -> None:
    assert findings(a_module(251, '"""A table.\n\nSize:\n"""')) == ["1: 251 lines in the module"]


def test_a_function_of_61_lines_is_found() -> None:
    assert findings(a_function(60)) == []
    assert findings(a_function(61)) == ["1: 61 lines in f()"]


def test_a_method_and_a_nested_function_are_measured_too() -> None:
    method = "class C:\n" + "\n".join(f"    {line}" for line in a_function(61).splitlines())
    assert findings(method) == ["2: 61 lines in f()"]


def test_a_long_function_may_say_why_beside_or_above() -> None:
    assert findings(a_function(61, beside="  # long: one case for each event")) == []
    assert findings(a_function(61, above="# long: one case for each event\n")) == []
    assert findings(a_function(61, above="# long: one case for each event\n@once\n")) == []
    assert findings(a_function(61, above="# long:\n")) == ["2: 61 lines in f()"]
