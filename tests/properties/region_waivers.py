"""What programs leave out while the ledger answers it otherwise than the documents say.

Each waiver is named for the test in `tests/core/region/test_found_by_the_model.py` that shows the fault at its smallest
and is expected to fail. When the ledger is mended that test passes, its mark must go, and the waiver with it:
`test_every_waiver_names_a_fault_that_is_still_there` insists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.region import commands as c
from tests.properties.region_model import Model

Waiver = Callable[[Model, Any], bool]


def another_account_than_the_tenants_quota(model: Model, command: Any) -> bool:
    """While somebody is owed protected room: a placement or a hold that something else than a quota pays for first."""
    payers: list[tuple[str, str]] = []
    if isinstance(command, c.Hold):
        assignment = model.assignments.get(command.assignment)
        payers.append((assignment.tenant if assignment else command.tenant, command.account))
    for group in command.groups if isinstance(command, c.Propose) else ():
        assignment = model.assignments.get(group.assignment)
        if assignment is not None:
            payers.append((assignment.tenant, *assignment.accounts[:1]))
    owed = any(model.owed(account) for account in model.grants)
    return owed and any(payer != [f"quota/{tenant}"] for tenant, *payer in payers)


WAIVERS: dict[str, Waiver] = {
    "test_a_tenant_is_not_refused_for_what_is_kept_for_itself": another_account_than_the_tenants_quota,
}


def waived(model: Model, envelope: Envelope[Any]) -> str:
    """Why a program does not send this now; empty when it may."""
    return next((name for name, waiver in WAIVERS.items() if waiver(model, envelope.command)), "")
