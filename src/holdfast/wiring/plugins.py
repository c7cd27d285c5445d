"""The plugins of a scheduler: those that come with Holdfast first, then what else is installed, by entry point.

A score that cannot be used is named in the log and left out: nodes are ranked without it. A filter that cannot be used
stops the start: what it was installed to keep out would be let in.
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
#: Where the built-in ones are, which are there whatever an installation says.
_OWN = "holdfast.core.scheduling."

#: The entry points of a group.
Points = Callable[[str], Iterable[EntryPoint]]


class UnusablePlugin(Exception):
    """It was loaded, and is no plugin."""


def _installed(group: str) -> Iterable[EntryPoint]:
    return entry_points(group=group)


def plugins(logger: Logger, points: Points = _installed) -> Plugins:
    """Everything that is installed; `StartupError` when a filter cannot be used."""
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
    """Those of other packages, in the order of their names: which package was installed first says nothing."""
    return sorted({one for one in points if not one.value.startswith(_OWN)}, key=lambda one: (one.name, one.value))


def _told(point: EntryPoint) -> str:
    return f"{point.name} ({point.value})"


def _made(point: EntryPoint, method: str, taken: list[str]) -> Any:
    """The plugin of an entry point; raises whatever it raises, or `UnusablePlugin`."""
    plugin = point.load()()
    name, version = getattr(plugin, "name", ""), getattr(plugin, "version", "")
    if not isinstance(name, str) or not all(name.partition("/")):
        raise UnusablePlugin(f"its name is VENDOR/NAME, not {name!r}")
    if name in taken:
        raise UnusablePlugin(f"{name} is there already")
    if not isinstance(version, str) or not version:
        raise UnusablePlugin("it has no version: decisions name the versions they were made with")
    if not callable(getattr(plugin, method, None)):
        raise UnusablePlugin(f"it has no method {method}")
    if method == "passes" and not isinstance(getattr(plugin, "code", None), Code):
        raise UnusablePlugin("it has no code of the ledger, by which its refusals are told")
    return plugin
