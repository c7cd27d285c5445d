"""Who sends and who reads what stands in the tables: commands, causes, codes, reasons, rights, settings, conditions.

The one idea: a name in a table is a promise, and production code either keeps it or does not. Production code is
parsed, not run. A command is sent where its class is called; a cause where its word stands in code of its edge's owner;
a member of an enum where it is named, by who may send it; a setting is read where `settings.NAME` is. Docstrings,
tables that only list, and what is named beside a definition do not count.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.records.lifecycle import PhaseEdge
from holdfast.core.model.values.conditions import Condition
from holdfast.core.model.values.settings import Settings
from tests.architecture.checkout import ROOT

T = TypeVar("T")

SOURCE = ROOT / "src"
#: What is no production code: it plays, measures, or shows how. What is not sent yet is listed, and not sent by that.
_NOT_PRODUCTION = (
    "holdfast.sim",
    "holdfast.replay",
    "holdfast.bench",
    "holdfast.examples",
    "holdfast.core.model.values.reserved_names",
)
#: Where the sender of an edge is, by the kind of its owner. The ledger commits what schedulers propose.
SENDERS_OF_EDGES: dict[str, tuple[str, ...]] = {
    "agent": ("holdfast.core.agent", "holdfast.agent"),
    "controller": ("holdfast.core.reconcilers", "holdfast.host"),
    "scheduler": ("holdfast.core.region.state.evolve", "holdfast.core.region.state.evolve_placements",
                  "holdfast.core.region.decide.preemption", "holdfast.core.region.decide.reservations"),
    "ledger": ("holdfast.core.region.decide.reservations",),
}  # fmt: skip


#: Tables that put members of an enum into an order, or say what to do about each: they read, and send nothing.
_LISTS = ("GRAVITY", "CONDITION_HINTS", "_STATUS", "BAD_WHEN_TRUE")


#: What hosts act as that is no reconciler of the registry.
NAMES_OF_HOSTS = frozenset({"controller/link", "controller/servers", "endpoints", "scheduler"})
#: What settings are called where they are read; where they are defined, `s` is the set that is checked.
_SETTINGS = ("settings", "_settings", "DEFAULTS")
#: What is in force is called so where it is read; or it is read of the call itself.
_IN_FORCE = ("overrides", "_overrides", "active_overrides")
_TYPE = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)*")


class Gap(NamedTuple):
    """A name in a table that nobody sends, or nobody reads."""

    table: str
    name: str
    lacks: str


class Senders(NamedTuple):
    """Modules that send members of an enum: naming them, or saying their words to whoever names them then."""

    by_name: tuple[str, ...]
    by_word: tuple[str, ...] = ()


class Module:
    """One module of production code, and what it names."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.tree = ast.parse(text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Its syntax, without docstrings and without tables that only list."""
        found: list[ast.AST] = [self.tree]
        for node in found:
            found.extend(child for child in ast.iter_child_nodes(node) if not _is_listing(child))
        return found

    @cached_property
    def called(self) -> set[Any]:
        """Every class that is called here and not defined here."""
        calls = (self.resolved(node.func) for node in self.nodes if isinstance(node, ast.Call))
        return {what for what in calls if isinstance(what, type) and what.__module__ != self.name}

    @cached_property
    def members(self) -> set[tuple[str, str]]:
        """`Coordination.MEMBER`; beside the definition of the class, in functions only."""
        classes = {node.name for node in self.tree.body if isinstance(node, ast.ClassDef)}
        functions = [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        inside = {id(node) for one in functions for node in ast.walk(one)}
        named = [node for node in self.nodes if isinstance(node, ast.Attribute)]
        return {
            (node.value.id, node.attr)
            for node in named
            if isinstance(node.value, ast.Name) and (node.value.id not in classes or id(node) in inside)
        }

    @cached_property
    def words(self) -> set[str]:
        """Every text."""
        return {n.value for n in self.nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}

    @cached_property
    def settings(self) -> set[str]:
        """Every name that is read of settings."""
        bases = _SETTINGS if self.name == Settings.__module__ else (*_SETTINGS, "s")
        named = [node for node in self.nodes if isinstance(node, ast.Attribute)]
        return {node.attr for node in named if _last_name(node.value) in bases}

    @cached_property
    def overrides(self) -> set[str]:
        """Every name that is read of what overrides restrict and allow now."""
        named = [node for node in self.nodes if isinstance(node, ast.Attribute)]
        bases = [(node.attr, node.value.func if isinstance(node.value, ast.Call) else node.value) for node in named]
        return {name for name, base in bases if _last_name(base) in _IN_FORCE}

    @cached_property
    def _imported(self) -> dict[str, Any]:
        """What the names stand for that it imports from this project."""
        found: dict[str, Any] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast"):
                source = importlib.import_module(str(node.module))
                for alias in node.names:
                    if not hasattr(source, alias.name):
                        importlib.import_module(f"{node.module}.{alias.name}")
                    found[alias.asname or alias.name] = getattr(source, alias.name)
        return found

    def resolved(self, func: ast.expr) -> Any:
        """What is called, if it is of this project."""
        if isinstance(func, ast.Name):
            return self._imported.get(func.id)
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            return getattr(self._imported.get(func.value.id), func.attr, None)
        return None


def _is_listing(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(one, ast.Name) and one.id in _LISTS for one in targets)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class Production:
    """All modules that run in production."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = tuple(modules)

    @classmethod
    def of_checkout(cls) -> Production:
        return cls(Module(name, path.read_text(encoding="utf-8")) for name, path in _files())

    def without(self, *names: str) -> Production:
        """What would be left were these modules not there."""
        return Production(module for module in self.modules if module.name not in names)

    @cached_property
    def called(self) -> set[Any]:
        return {what for module in self.modules for what in module.called}

    @cached_property
    def members(self) -> dict[tuple[str, str], set[str]]:
        return _by_what((module.name, module.members) for module in self.modules)

    @cached_property
    def words(self) -> dict[str, set[str]]:
        return _by_what((module.name, module.words) for module in self.modules)

    @cached_property
    def settings(self) -> dict[str, set[str]]:
        return _by_what((module.name, module.settings) for module in self.modules)


def _by_what(named: Iterable[tuple[str, set[T]]]) -> dict[T, set[str]]:
    """In which modules each is."""
    found: dict[T, set[str]] = {}
    for module, things in named:
        for thing in things:
            found.setdefault(thing, set()).add(module)
    return found


def _files() -> Iterator[tuple[str, Path]]:
    for path in sorted((SOURCE / "holdfast").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        if not name.startswith(_NOT_PRODUCTION):
            yield name, path


# The tables


def unsent_commands(code: Production, definition: LedgerDefinition[Any], by_people: Iterable[type]) -> Iterator[Gap]:
    """Commands that nobody sends: neither people by the API, nor any code."""
    people = set(by_people)
    for command in definition.rules:
        if command not in code.called and command not in people:
            yield Gap("command", f"{definition.name} {command.__name__}", "a sender")


def unsent_causes(code: Production, edges: Iterable[PhaseEdge]) -> Iterator[Gap]:
    """Causes of edges whose word the owner of the edge never says."""
    for cause, kind in sorted({(edge.cause, edge.owner.partition("/")[0]) for edge in edges}):
        if not any(name.startswith(SENDERS_OF_EDGES[kind]) for name in code.words.get(cause, ())):
            yield Gap("cause", cause, "a sender")


def unsent_members(code: Production, table: str, enum: Any, senders: Senders) -> Iterator[Gap]:
    """Members of an enum that no sender names, nor says as a word."""
    for member in enum:
        named = code.members.get((enum.__name__, member.name), ())
        said = code.words.get(member.value, ())
        is_named = any(name.startswith(senders.by_name) for name in named)
        if not is_named and not any(name.startswith(senders.by_word) for name in said):
            yield Gap(table, member.value, "a sender")


def unread_settings(code: Production, table: str, names: Iterable[str], but: tuple[str, ...]) -> Iterator[Gap]:
    """Settings that nobody asks for, except in the modules that define and check them."""
    for name in names:
        if not {one for one in code.settings.get(name, ()) if not one.startswith(but)}:
            yield Gap(table, name, "a reader")


def unread_overrides(code: Production, readers: Mapping[OverrideAction, str]) -> Iterator[Gap]:
    """Kinds of overrides that can be opened and that nothing goes by; `readers`: what is asked of what is in force."""
    for action, name in readers.items():
        if not any(name in module.overrides for module in code.modules):
            yield Gap("override", action.value, "a reader")


def unsent_principals(
    code: Production, books: Iterable[LedgerDefinition[Any]], running: Iterable[str]
) -> Iterator[Gap]:
    """Controllers that own a command or an edge, and that nothing acts as."""
    owners = {owner for definition in books for rule in definition.rules.values() for owner in rule.owners}
    hosts = {word for word, where in code.words.items() if any(name.startswith("holdfast.host") for name in where)}
    acting = {*running, *(f"controller/{word.removeprefix('controller/')}" for word in hosts & NAMES_OF_HOSTS)}
    for owner in sorted(owners):
        if owner.startswith("controller/") and owner not in acting:
            yield Gap("controller", owner, "somebody who acts as it")


def condition_types(code: Production) -> set[str]:
    """The types of all conditions that are said: texts in capitals of modules that make conditions."""
    found: set[str] = set()
    for module in code.modules:
        if Condition in module.called:
            found.update(word for word in module.words if _TYPE.fullmatch(word))
    return found
