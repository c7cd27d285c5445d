"""The other half of the seeds that every change is tried with."""

from __future__ import annotations

import pytest

from holdfast.sim.runs.coverage import GATED
from tests.support.simulator.clean_swarms import clean


@pytest.mark.timeout(900)
def test_sixty_more_seeds_are_clean_every_gate_acts_and_quotas_and_budgets_bind(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    result = clean(range(61, 121), capsys, caplog)
    assert GATED not in result.coverage.unjudged
    assert result.coverage.missed == ()
