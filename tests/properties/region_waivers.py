"""What programs leave out while the ledger answers it otherwise than the documents say.

Each waiver is named for the test in `tests/core/region/test_found_by_the_model.py` that shows the fault at its smallest
and is expected to fail. When the ledger is mended that test passes, its mark must go, and the waiver with it:
`test_every_waiver_names_a_fault_that_is_still_there` insists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.region import commands as c
from tests.properties.region_model import Model

Waiver = Callable[[Model, Any], bool]


def another_account_than_the_tenants_quota(model: Model, command: Any) -> bool:
    """While somebody is owed protected room: a placement or a hold that something else than a quota pays for first."""
    if not any(model.owed(account) for account in model.grants):
        return False
    named = [group.assignment for group in command.groups] if isinstance(command, c.Propose) else []
    known = [model.assignments[uid] for uid in named if uid in model.assignments]
    if isinstance(command, c.Hold) and command.assignment in model.assignments:
        known = [replace(model.assignments[command.assignment], accounts=(command.account,))]
    return any(assignment.accounts[:1] != (f"quota/{assignment.tenant}",) for assignment in known)


WAIVERS: dict[str, Waiver] = {
    "test_a_tenant_is_not_refused_for_what_is_kept_for_itself": another_account_than_the_tenants_quota,
}


def waived(model: Model, envelope: Envelope[Any]) -> str:
    """Why a program does not send this now; empty when it may."""
    return next((name for name, waiver in WAIVERS.items() if waiver(model, envelope.command)), "")
