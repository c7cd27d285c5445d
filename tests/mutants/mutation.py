"""One small change of a program that a test should notice: a comparison, an operator or a condition turned.

    <  <=     ==  !=     in  not in     is  is not     +  -     *  //     and  or     min  max     if x  if not x

Assertions are left out, since a turned one fails by itself; so are annotations, and what only shows or logs something.

Many mutants live in one module at once, each behind a question: `a < b` becomes `(a <= b) if SWITCH(7) else (a < b)`.
Whoever answers the question turns one of them on, and hears which of them a test comes by.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from copy import deepcopy
from typing import NamedTuple

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
}  # fmt: skip
CHOSEN = {"min": "max", "max": "min", "any": "all", "all": "any"}
#: The question's name, a builtin while mutants are tried.
SWITCH = "__is_turned__"
#: Functions that only show something to people, or tell what happened.
SHOWN = {"__repr__", "__str__", "log", "info", "warning", "error", "debug", "note", "show", "hint"}


class Mutant(NamedTuple):
    """The number of a place in its module, where that is, and what becomes of it."""

    module: str
    number: int
    line: int
    change: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.change}"


class Place(NamedTuple):
    """Something that can be turned; for a comparison of several, which of them."""

    node: ast.AST
    change: str
    which: int = 0


def mutants(module: str, source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its text."""
    places = _places(ast.parse(source))
    return [
        Mutant(module, number, getattr(place.node, "lineno", 0), place.change) for number, place in enumerate(places)
    ]


def switched(source: str, numbers: Container[int]) -> ast.Module:
    """The module with these of its places behind a question each."""
    tree = ast.parse(source)
    _Switches(_places(tree), numbers).visit(tree)
    return ast.fix_missing_locations(tree)


def _places(tree: ast.Module) -> list[Place]:
    found = [place for node in _walk(tree) for place in _of(node)]
    return sorted(
        found, key=lambda one: (getattr(one.node, "lineno", 0), getattr(one.node, "col_offset", 0), one.which)
    )


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Everything that is executed and matters."""
    if isinstance(node, ast.Assert | ast.Raise):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in SHOWN:
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SHOWN:
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_alias(child):
                yield from _walk(child)


def _is_alias(node: ast.AST) -> bool:
    """Whether it names a type: `Key = A | B` computes nothing."""
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr)


def _of(node: ast.AST) -> Iterator[Place]:
    match node:
        case ast.Compare():
            for index, op in enumerate(node.ops):
                if type(op) in COMPARED:
                    yield Place(node, f"{type(op).__name__} -> {COMPARED[type(op)].__name__}", index)
        case ast.BinOp() | ast.AugAssign() if type(node.op) in COUNTED and not _is_text(node):
            yield Place(node, f"{type(node.op).__name__} -> {COUNTED[type(node.op)].__name__}")
        case ast.BoolOp():
            yield Place(node, "And -> Or" if isinstance(node.op, ast.And) else "Or -> And")
        case ast.If() | ast.IfExp() | ast.While() if not isinstance(node.test, ast.Compare | ast.Constant):
            yield Place(node, "condition turned")
        case ast.Call(func=ast.Name(id=name)) if name in CHOSEN and node.args:
            yield Place(node, f"{name} -> {CHOSEN[name]}")


def _is_text(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether texts are joined: they have no other operator."""
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    return any(isinstance(one, ast.JoinedStr | ast.List | ast.Tuple) or _is_str(one) for one in parts)


def _is_str(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


class _Switches(ast.NodeTransformer):
    """Puts each place behind its question; what is turned on holds no other question, so one mutant is one change."""

    def __init__(self, places: list[Place], numbers: Container[int]) -> None:
        self._of: dict[int, list[tuple[int, Place]]] = {}
        for number, place in enumerate(places):
            if number in numbers:
                self._of.setdefault(id(place.node), []).append((number, place))

    def visit(self, node: ast.AST) -> ast.AST:
        mine = [(number, _turned(place)) for number, place in self._of.get(id(node), ())]
        after: ast.AST = self.generic_visit(node)
        for number, turned in mine:
            after = _switch(after, _question(number), turned)
        return after


def _question(number: int) -> ast.expr:
    return ast.Call(ast.Name(SWITCH, ast.Load()), [ast.Constant(number)], [])


def _switch(node: ast.AST, question: ast.expr, turned: ast.AST) -> ast.AST:
    match node, turned:
        case (ast.If() | ast.IfExp() | ast.While()) as branch, ast.UnaryOp() as other:
            branch.test = ast.copy_location(ast.IfExp(question, other, branch.test), branch.test)
            return branch
        case ast.AugAssign() as step, ast.AugAssign() as other_step:
            return ast.copy_location(ast.If(question, [other_step], [step]), step)
        case ast.expr() as value, ast.expr() as other:
            return ast.copy_location(ast.IfExp(question, other, value), value)
    raise AssertionError(node)


def _turned(place: Place) -> ast.AST:
    """A copy of what becomes of it: of a branch, of its condition alone."""
    match place.node:
        case ast.If() | ast.IfExp() | ast.While() as branch:
            return ast.UnaryOp(ast.Not(), deepcopy(branch.test))
        case node:
            copy = deepcopy(node)
    match copy:
        case ast.Compare():
            copy.ops[place.which] = COMPARED[type(copy.ops[place.which])]()
        case ast.BinOp() | ast.AugAssign():
            copy.op = COUNTED[type(copy.op)]()
        case ast.BoolOp():
            copy.op = ast.Or() if isinstance(copy.op, ast.And) else ast.And()
        case ast.Call(func=ast.Name() as func):
            func.id = CHOSEN[func.id]
    return copy
