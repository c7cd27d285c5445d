"""The plugins of a scheduler: those of Holdfast first, then other installed ones, by entry point.

A score plugin that cannot be used is logged and left out: nodes are ranked without it. A filter plugin that cannot be
used prevents the start, since the nodes it should exclude would be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins
from holdfast.host.runtime.telemetry import Logger
from holdfast.wiring.process import StartupError

FILTERS, SCORES = "holdfast.filters", "holdfast.scores"
#: The package of built-in plugins, which are present independently of entry points.
_OWN = "holdfast.core.scheduling."

#: Returns the entry points of a group.
Points = Callable[[str], Iterable[EntryPoint]]


class UnusablePlugin(Exception):
    """An entry point was loaded, and is not a valid plugin."""


def _installed(group: str) -> Iterable[EntryPoint]:
    return entry_points(group=group)


def plugins(logger: Logger, points: Points = _installed) -> Plugins:
    """Return all installed plugins; `StartupError` if a filter cannot be used."""
    filters = [*BUILT_IN.filters]
    for point in _others(points(FILTERS)):
        try:
            filters.append(_made(point, "passes", [one.name for one in filters]))
        except Exception as error:
            raise StartupError(f"the filter {_told(point)} cannot be used: {error}") from error
    scores = [*BUILT_IN.scores]
    for point in _others(points(SCORES)):
        try:
            scores.append(_made(point, "score", [one.name for one in scores]))
        except Exception as error:
            logger.error("score left out", error, plugin=_told(point))
    return Plugins(tuple(filters), tuple(scores))


def _others(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Return those of other packages, sorted by name: the order of installation has no effect."""
    return sorted({one for one in points if not one.value.startswith(_OWN)}, key=lambda one: (one.name, one.value))


def _told(point: EntryPoint) -> str:
    return f"{point.name} ({point.value})"


def _made(point: EntryPoint, method: str, taken: list[str]) -> Any:
    """Return the plugin of an entry point; raises its errors, or `UnusablePlugin`."""
    plugin = point.load()()
    name, version = getattr(plugin, "name", ""), getattr(plugin, "version", "")
    if not isinstance(name, str) or not all(name.partition("/")):
        raise UnusablePlugin(f"its name must be VENDOR/NAME, not {name!r}")
    if name in taken:
        raise UnusablePlugin(f"{name} is there already")
    if not isinstance(version, str) or not version:
        raise UnusablePlugin("it has no version, which decisions record")
    if not callable(getattr(plugin, method, None)):
        raise UnusablePlugin(f"it has no method {method}")
    if method == "passes" and not isinstance(getattr(plugin, "code", None), Code):
        raise UnusablePlugin("it has no refusal code of the ledger for the nodes it excludes")
    return plugin
