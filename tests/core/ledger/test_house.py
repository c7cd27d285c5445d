"""How a log begins: with an id, an operator who is a person, and settings that are safe."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.draft import Draft, Landed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.house import StartLog
from holdfast.core.model.settings import DEFAULTS
from holdfast.core.region.book import REGION
from holdfast.core.region.state import RegionState
from tests.support.region import ROOT, T0

GOOD = StartLog("log", "region/eu", ROOT)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (replace(GOOD, log_id=""), "a log needs an id and an operator"),
        (replace(GOOD, operator="agent/n1"), "a log needs an id and an operator"),
        (replace(GOOD, settings=replace(DEFAULTS, session_lease=1)), "session"),
    ],
)
def test_a_log_is_not_started_without_id_and_operator_or_with_settings_that_are_not_safe(
    command: StartLog, words: str
) -> None:
    answer = Draft(REGION, RegionState()).consider(Envelope("ledger", command, T0), T0)
    assert isinstance(answer, Refused)
    assert answer.code is Code.CONTRADICTORY
    assert words in answer.message


def test_a_log_is_started_once() -> None:
    draft = Draft(REGION, RegionState())
    assert isinstance(draft.consider(Envelope("ledger", GOOD, T0), T0), Landed)
    again = draft.consider(Envelope("ledger", GOOD, T0), T0)
    assert isinstance(again, Refused)
    assert again.code is Code.EXISTS
