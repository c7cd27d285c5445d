"""What programs leave out while the ledger answers it otherwise than the documents say.

Each waiver is named for the test in `tests/core/region/test_found_by_the_model.py` that shows the fault at its smallest
and is expected to fail. When the ledger is mended that test passes, its mark must go, and the waiver with it:
`test_every_waiver_names_a_fault_that_is_still_there` insists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.envelope import Envelope
from tests.properties.region_model import Model

Waiver = Callable[[Model, Any], bool]


WAIVERS: dict[str, Waiver] = {}


def waived(model: Model, envelope: Envelope[Any]) -> str:
    """Why a program does not send this now; empty when it may."""
    return next((name for name, waiver in WAIVERS.items() if waiver(model, envelope.command)), "")
