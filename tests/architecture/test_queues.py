"""What is taken from the front of is no plain dict: its first key is found by passing all that were taken before it.

Draining such a dict costs the square of what was in it. `OrderedDict.popitem(last=False)` and `deque.popleft` do not.
"""

import ast
from collections.abc import Iterator

from tests.architecture.checkout import SOURCE, Finding, modules_under, name_of, none_of


def emptied_dicts(text: str, module: str) -> Iterator[Finding]:
    for node in ast.walk(ast.parse(text, filename=module)):
        if isinstance(node, ast.ClassDef):
            plain = set(_plain_dicts(node))
            for line, name in _first_of(node):
                if name in plain:
                    yield Finding(module, line, f"the first of {name}, a plain dict: use an OrderedDict or a deque")


def _plain_dicts(node: ast.ClassDef) -> Iterator[str]:
    """Attributes of the class that are said to be dicts."""
    for one in ast.walk(node):
        if isinstance(one, ast.AnnAssign) and ast.unparse(one.annotation).startswith(("dict[", "Dict[")):
            yield ast.unparse(one.target).removeprefix("self.")


def _first_of(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Where `next(iter(self.name))` or `islice(self.name, ...)` is asked for, of its keys, values or items."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and ast.unparse(one.func) in ("next", "islice") and one.args:
            inner = one.args[0]
            if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "iter":
                inner = inner.args[0]
            elif ast.unparse(one.func) == "next":
                continue
            words = ast.unparse(inner).removesuffix("()").split(".")
            yield one.lineno, words[1] if words[0] == "self" and len(words) > 1 else words[0]


def test_nothing_is_taken_from_the_front_of_a_plain_dict() -> None:
    found = [
        finding
        for path in modules_under(SOURCE)
        for finding in emptied_dicts(path.read_text(encoding="utf-8"), name_of(path))
    ]
    none_of(found)


def test_a_dict_that_is_emptied_from_the_front_is_found() -> None:
    text = "class Line:\n    def __init__(self):\n        self.keys: dict[str, int] = {}\n"
    text += "    def take(self):\n        return next(iter(self.keys.items()))\n"
    assert [finding.line for finding in emptied_dicts(text, "line")] == [5]
    assert list(emptied_dicts(text.replace("dict[", "OrderedDict["), "line")) == []
