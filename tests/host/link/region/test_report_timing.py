"""How long a region has nothing to tell: news is told at once, what rests when it has, and nobody asks in between."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.host.link.region.dirty_set import CALM_MS, DirtyObjects
from holdfast.host.link.region.reporter import IDLE_MS, Reporter

NOW = 10_000


def waits(noticed: DirtyObjects, look_at: int = 0) -> int:
    """What it waits with this noticed, when all else was told."""
    noticed.is_summary_old = False
    reporting: Any = Reporter.__new__(Reporter)
    reporting._clock = SimpleNamespace(boot=lambda: NOW)
    reporting._noticed, reporting._look_at = noticed, look_at
    reporting._place = reporting._told_place = lambda: (1, 2)
    found: int = reporting._wait_ms()
    return found


@pytest.mark.parametrize("look_at", [NOW - 1, NOW + 20])
def test_news_waits_for_the_next_look_alone_whatever_rests(look_at: int) -> None:
    noticed = DirtyObjects()
    noticed.accounts["quota/acme"] = None
    noticed.let_rest(1, since=NOW)
    assert waits(noticed, look_at) == look_at - NOW


def test_what_rests_is_looked_at_when_it_has_and_not_before() -> None:
    noticed = DirtyObjects()
    noticed.let_rest(1, since=NOW - 30)
    assert waits(noticed) == CALM_MS - 30
    assert waits(noticed, look_at=NOW + CALM_MS) == CALM_MS


def test_where_nothing_is_noticed_it_waits_until_something_happens() -> None:
    assert waits(DirtyObjects()) == IDLE_MS
