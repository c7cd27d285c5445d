"""The rules of both ledgers say in which lane each command goes."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.commit.rules import CommandLane, CommandRule
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION

USUAL = [rule for book in (REGION, PLATFORM) for rule in book.rules.values() if rule.pressing is None]


@pytest.mark.parametrize("rule", USUAL, ids=lambda rule: rule.command.__name__)
def test_a_command_that_never_presses_goes_in_the_lane_of_its_rule(rule: CommandRule[object]) -> None:
    assert rule.lane_of(object()) is rule.lane


@pytest.mark.parametrize(("cause", "lane"), [("right-lapsed", CommandLane.REPORTS), ("drain", CommandLane.RECONCILERS)])
def test_a_stop_that_another_region_waits_for_goes_with_the_reports(cause: str, lane: CommandLane) -> None:
    assert REGION.rules[c.Stop].lane_of(c.Stop(((1, 0),), cause)) is lane
