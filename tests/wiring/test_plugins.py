"""Plugins by entry point: built-in ones first and always, what cannot be used named."""

from __future__ import annotations

import logging
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins
from holdfast.host.runtime.telemetry import Logger
from holdfast.wiring.process import StartupError
from holdfast.wiring.scheduler import BINDS, FILTERS, POST_BINDS, RESERVES, SCORES, VICTIMS, plugins

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def a_filter(name: str = "acme/roomy", **others: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"name": name, "version": "1", "code": Code.CAPACITY, "passes": list, **others})


def a_score(name: str = "acme/green", **others: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"name": name, "version": "1", "score": list, **others})


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package that somebody has installed."""
    module = ModuleType("acme_plugins")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def found(acme: ModuleType, filters: dict[str, Any] | None = None, scores: dict[str, Any] | None = None) -> Plugins:
    """What is loaded where these are installed, by the names of their entry points."""
    many = {FILTERS: filters or {}, SCORES: scores or {}}
    for name, plugin in [*many[FILTERS].items(), *many[SCORES].items()]:
        setattr(acme, name, lambda plugin=plugin: plugin)

    def points(group: str) -> list[EntryPoint]:
        return [EntryPoint(name, f"acme_plugins:{name}", group) for name in many.get(group, {})]

    return plugins(Logger("test"), points)


def test_the_entry_points_of_the_project_are_the_built_in_plugins() -> None:
    groups = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    for group, built_in in ((FILTERS, BUILT_IN.filters), (SCORES, BUILT_IN.scores)):
        listed = {name: EntryPoint(name, value, group).load() for name, value in groups[group].items()}
        assert listed == {one.name: type(one) for one in built_in}


def test_built_in_plugins_are_there_once_whatever_is_installed() -> None:
    groups = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]

    def points(group: str) -> list[EntryPoint]:
        return [EntryPoint(name, value, group) for name, value in groups.get(group, {}).items()]

    assert plugins(Logger("test"), points) == BUILT_IN
    assert plugins(Logger("test"), lambda _: ()) == BUILT_IN


def test_what_others_have_installed_comes_after_them_in_the_order_of_its_names(acme: ModuleType) -> None:
    later, first = a_score("acme/later"), a_score("acme/first")
    roomy = a_filter()
    assert found(acme, {"roomy": roomy}, {"later": later, "first": first}) == Plugins(
        (*BUILT_IN.filters, roomy), (*BUILT_IN.scores, first, later)
    )


@pytest.mark.parametrize(
    ("group", "method", "kind"),
    [(VICTIMS, "spares", "victims"), (RESERVES, "refuses", "reserves"), (BINDS, "waits", "binds")],
)
def test_a_plugin_that_holds_something_back_is_found_and_stops_the_start_if_it_cannot_be_used(
    acme: ModuleType, group: str, method: str, kind: str
) -> None:
    one = SimpleNamespace(name="acme/one", version="1", **{method: list})
    acme.one = lambda: one  # type: ignore[attr-defined]

    def points(asked: str) -> list[EntryPoint]:
        return [EntryPoint("one", "acme_plugins:one", group)] if asked == group else []

    assert getattr(plugins(Logger("test"), points), kind) == (one,)
    delattr(one, method)
    with pytest.raises(StartupError, match=f"no method {method}"):
        plugins(Logger("test"), points)


def test_a_post_bind_plugin_is_found_and_left_out_if_it_cannot_be_used(acme: ModuleType) -> None:
    one = SimpleNamespace(name="acme/one", version="1", on_bound=list)
    acme.one = lambda: one  # type: ignore[attr-defined]

    def points(asked: str) -> list[EntryPoint]:
        return [EntryPoint("one", "acme_plugins:one", POST_BINDS)] if asked == POST_BINDS else []

    assert plugins(Logger("test"), points).post_binds == (one,)
    del one.version
    assert plugins(Logger("test"), points).post_binds == ()


UNUSABLE = [
    ({"name": "green"}, "VENDOR/NAME"),
    ({"name": "acme/"}, "VENDOR/NAME"),
    ({"name": 7}, "VENDOR/NAME"),
    ({"version": ""}, "version"),
    ({"score": None, "passes": None}, "no method"),
]


@pytest.mark.parametrize(("fields", "why"), UNUSABLE, ids=str)
def test_a_score_that_cannot_be_used_is_named_in_the_log_and_left_out(
    acme: ModuleType, caplog: pytest.LogCaptureFixture, fields: dict[str, Any], why: str
) -> None:
    good = a_score("acme/good")
    with caplog.at_level(logging.ERROR):
        loaded = found(acme, scores={"bad": a_score(**fields), "good": good})
    assert loaded.scores == (*BUILT_IN.scores, good)
    assert "bad (acme_plugins:bad)" in caplog.text
    assert why in caplog.text


@pytest.mark.parametrize(("fields", "why"), [*UNUSABLE, ({"code": "capacity"}, "code")], ids=str)
def test_a_filter_that_cannot_be_used_stops_the_start(acme: ModuleType, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(StartupError, match=rf"the filter bad \(acme_plugins:bad\) cannot be used: .*{why}"):
        found(acme, {"bad": a_filter(**fields)})


def test_two_plugins_of_one_name_are_not_both_used(acme: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    one, other = a_score(), a_score()
    assert found(acme, scores={"a": one, "b": other}).scores == (*BUILT_IN.scores, one)
    assert "acme/green is there already" in caplog.text
    with pytest.raises(StartupError, match="acme/roomy is there already"):
        found(acme, {"a": a_filter(), "b": a_filter()})


def test_a_package_that_is_broken_stops_a_filter_and_leaves_out_a_score(caplog: pytest.LogCaptureFixture) -> None:
    def points(broken: str, group: str) -> list[EntryPoint]:
        return [EntryPoint("gone", "no_such_package:Gone", group)] if group == broken else []

    assert plugins(Logger("test"), lambda group: points(SCORES, group)) == BUILT_IN
    assert "gone (no_such_package:Gone)" in caplog.text
    with pytest.raises(StartupError, match="no_such_package"):
        plugins(Logger("test"), lambda group: points(FILTERS, group))
