"""The benchmark of gangs: small, and with a fault that its figure notices."""

from __future__ import annotations

import pytest

from holdfast.bench.report import Unmeasured
from holdfast.bench.sharing import gangs
from holdfast.core.scheduling import gang_trial


def test_every_gang_is_placed_within_the_bound() -> None:
    [found] = gangs.measure_gangs(60, 4)
    assert (found.value, found.met) == (4, True)


def test_gangs_that_run_for_long_let_others_wait_and_the_figure_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "RUNS", 14)
    [found] = gangs.measure_gangs(60, 2)
    assert not found.met


def test_a_scheduler_that_never_tries_a_gang_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_trial, "waiting_gangs", lambda *_: [])
    with pytest.raises(Unmeasured, match="0 of 2 gangs were placed"):
        gangs.measure_gangs(60, 2)
