"""The core is pure: no clock, chance, disk, network or process, and no order taken from a set.

Read from the syntax tree, so it also sees code that no test runs. What a syntax tree cannot show (a set kept
in an attribute, a clock passed in as an argument) is left to review and to the replay tests.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.checkout import CORE, Finding, modules_under, name_of, none_of, parsed

ALLOWED = {
    "__future__", "abc", "bisect", "collections", "contextlib", "dataclasses", "enum", "functools", "hashlib",
    "heapq", "hmac", "ipaddress", "itertools", "math", "operator", "re", "struct", "types", "typing", "zlib",
    "msgspec", "numpy",
}  # fmt: skip

WHY_NOT = {
    "time": "asks the clock; take `at` or `now` as an argument",
    "datetime": "asks the clock; take `at` or `now` as an argument",
    "random": "draws by chance; derive it from identity and seed",
    "secrets": "draws by chance; derive it from identity and seed",
    "uuid": "draws by chance; uids are log revisions",
    "os": "reaches the machine",
    "io": "reaches the disk",
    "pathlib": "reaches the disk",
    "sys": "reaches the interpreter",
    "asyncio": "belongs to the shells in holdfast.host",
    "threading": "belongs to the shells in holdfast.host",
    "logging": "speaks to the outside; return it as a value",
    "socket": "reaches the network",
    "subprocess": "starts a process",
}

FORBIDDEN_CALLS = {
    "open": "reaches the disk",
    "print": "speaks to the outside; return it as a value",
    "input": "asks a person",
    "id": "differs from run to run",
    "hash": "differs from run to run",
    "eval": "hides what it runs from this check",
    "exec": "hides what it runs from this check",
    "__import__": "hides what it imports from this check",
}
# The sharded table picks a shard by the hash of integers, which is the same in every process; a test pins it.
EXEMPT_CALLS = {"src/holdfast/core/ledger/state/table.py": {"hash", "id"}}

KEEPS_ORDER = {"list", "tuple", "iter", "enumerate", "map", "filter", "zip", "reversed"}
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
FROM_A_SET = "takes its order from a set; wrap it in sorted()"

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def impurities(tree: ast.Module, file: str) -> Iterator[Finding]:
    """Everything in one module that would make its answer depend on more than its arguments."""
    for node in ast.walk(tree):
        yield from foreign_imports(node, file)
        yield from forbidden_calls(node, file)
    yield from order_from_sets(tree, file)


def foreign_imports(node: ast.AST, file: str) -> Iterator[Finding]:
    match node:
        case ast.Import(names=names):
            imported = [alias.name for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            origin = absolute(module, level, file)
            imported = [f"{origin}.{alias.name}" for alias in names]
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
            imported = ["numpy.random"]
        case _:
            return
    for name in imported:
        why = why_not_import(name)
        if why is not None:
            yield Finding(file, node.lineno, f"{name}: {why}")


def absolute(module: str | None, level: int, file: str) -> str:
    """The module that an import names, with leading dots counted from the importing file."""
    if level == 0:
        return module or ""
    package = Path(file).with_suffix("").parts[1:-level]  # without the leading "src"
    return ".".join([*package, *([module] if module else [])])


def why_not_import(name: str) -> str | None:
    top, *rest = name.split(".")
    if top == "holdfast":
        return None if rest[:1] == ["core"] else "the core imports nothing of Holdfast but the core"
    if top == "numpy" and rest[:1] == ["random"]:
        return WHY_NOT["random"]
    if top in ALLOWED:
        return None
    return WHY_NOT.get(top, "not on the allow list of the core")


def forbidden_calls(node: ast.AST, file: str) -> Iterator[Finding]:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
            if name not in EXEMPT_CALLS.get(file, set()):
                yield Finding(file, node.lineno, f"{name}(): {FORBIDDEN_CALLS[name]}")


def order_from_sets(scope: Scope, file: str) -> Iterator[Finding]:
    """Loops, comprehensions and conversions over what is plainly a set, function by function."""
    inner, nodes = split_by_scope(scope)
    known = names_of_sets(scope, nodes)
    sorted_later = {id(argument) for node in nodes for argument in arguments_of_sorted(node)}
    for node in nodes:
        for source in ordered_reads(node):
            if is_set(source, known) and id(node) not in sorted_later:
                yield Finding(file, source.lineno, FROM_A_SET)
    for nested in inner:
        yield from order_from_sets(nested, file)


def split_by_scope(scope: Scope) -> tuple[list[Scope], list[ast.AST]]:
    """The scopes directly inside this one, and the nodes that belong to this one alone."""
    inner: list[Scope] = []
    nodes: list[ast.AST] = []
    waiting: list[ast.AST] = [scope]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, Scope):
                inner.append(child)
            else:
                nodes.append(child)
                waiting.append(child)
    return inner, nodes


def ordered_reads(node: ast.AST) -> list[ast.expr]:
    """The expressions whose order the node lets through."""
    match node:
        case ast.For(iter=source) | ast.AsyncFor(iter=source) | ast.Starred(value=source):
            return [source]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return [generator.iter for generator in node.generators]
        case ast.Call(func=ast.Attribute(attr="join"), args=[source]):
            return [source]
        case ast.Call(func=ast.Name(id="min" | "max"), args=[source], keywords=[_, *_]):
            return [source]  # with a key, ties go to whoever comes first
        case ast.Call(func=ast.Name(id=name), args=args) if name in KEEPS_ORDER:
            return args
        case _:
            return []


def is_set(node: ast.expr, known: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in known
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in SET_METHODS
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, SET_OPERATORS):
            return any(is_set(side, known) or is_keys_view(side) for side in (left, right))
        case _:
            return False


def is_keys_view(node: ast.expr) -> bool:
    """`a.keys() - b.keys()` is a set, although neither side is one."""
    match node:
        case ast.Call(func=ast.Attribute(attr="keys" | "items"), args=[]):
            return True
        case _:
            return False


def names_of_sets(scope: Scope, nodes: list[ast.AST]) -> set[str]:
    """Names that this scope binds to sets and to nothing else, as far as can be read."""
    sets: set[str] = set()
    others: set[str] = set()
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        sets |= {a.arg for a in arguments if a.annotation is not None and says_set(a.annotation)}
    for node in nodes:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                (sets if says_set(annotation) else others).add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                (sets if is_set(value, set()) else others).add(name)
            case ast.For(target=target) | ast.comprehension(target=target):
                others |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return sets - others


def says_set(annotation: ast.expr) -> bool:
    head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return isinstance(head, ast.Name) and head.id in {"set", "frozenset", "AbstractSet"}


def arguments_of_sorted(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Name(id="sorted"), args=arguments):
            return arguments
        case _:
            return []


def test_the_core_is_pure() -> None:
    modules = modules_under(CORE)
    assert modules, "the core has no modules: is the path right?"
    none_of(finding for path in modules for finding in impurities(parsed(path), name_of(path)))


IN_CORE = "src/holdfast/core/region/decide.py"
TABLE = "src/holdfast/core/ledger/state/table.py"


@pytest.mark.parametrize(
    "snippet",
    [
        "import time",
        "import os.path",
        "from datetime import datetime",
        "from random import shuffle",
        "import requests",
        "import numpy.random",
        "from numpy import random",
        "import numpy as np\nrng = np.random.default_rng()",
        "from holdfast.host import leader",
        "import holdfast",
        "from ...host import leader",
        "open('state')",
        "print('placed')",
        "key = hash(name)",
        "key = id(name)",
        "eval('1')",
        "for n in {1, 2}: pass",
        "for n in set(nodes): pass",
        "for n in set(nodes) - lost: pass",
        "for n in a.keys() - b.keys(): pass",
        "for n in nodes.union(more): pass",
        "names = [n for n in frozenset(nodes)]",
        "names = {n: 1 for n in {m for m in nodes}}",
        "names = list({1, 2})",
        "names = [*set(nodes)]",
        "text = ', '.join(set(names))",
        "best = max(set(nodes), key=score)",
        "lost = set(nodes)\nfor n in lost: pass",
        "def f(lost: set[str]) -> None:\n    for n in lost: pass",
        "def f() -> None:\n    lost: frozenset[str] = find()\n    for n in lost: pass",
    ],
)
def test_an_impurity_is_found_and_placed(snippet: str) -> None:
    found = list(impurities(ast.parse(snippet), IN_CORE))
    assert len(found) == 1
    assert str(found[0]).startswith(f"{IN_CORE}:{found[0].line}: ")
    assert 1 <= found[0].line <= len(snippet.splitlines())


@pytest.mark.parametrize(
    "snippet",
    [
        "from collections.abc import Mapping",
        "import numpy as np\ntotal = np.sum(free)",
        "from holdfast.core.model import resources",
        "from holdfast.core import model",
        "from ..model import resources",
        "for n in sorted(set(nodes)): pass",
        "for n in sorted(a.keys() - b.keys()): pass",
        "names = sorted(n.name for n in set(nodes))",
        "known = n in {1, 2}",
        "count = len(set(nodes))",
        "best = max(set(ranks))",
        "left = total - used\nfor n in range(left): pass",
        "def f(lost: set[str]) -> None:\n    lost_in_order = sorted(lost)\n    for n in lost_in_order: pass",
        "def f(found: set[str]) -> None: pass\ndef g(found: list[str]) -> None:\n    for n in found: pass",
    ],
)
def test_what_is_pure_is_left_alone(snippet: str) -> None:
    assert list(impurities(ast.parse(snippet), IN_CORE)) == []


def test_the_table_may_hash_but_not_open() -> None:
    assert list(impurities(ast.parse("shard = hash(key) % 64"), TABLE)) == []
    assert len(list(impurities(ast.parse("open('shard')"), TABLE))) == 1
