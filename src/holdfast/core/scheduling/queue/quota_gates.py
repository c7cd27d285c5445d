"""Quota gates: how many slots of a group may be proposed, by payers, protected capacity and pauses, before any node.

They use the ledger's functions (`region.queries.accounts`), once per group. Proposals in flight count as spent.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import ActiveOverrides
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.resources import ZERO, Resources, add, subtract
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.queries.accounts import GRANT_ENDED, UNLIMITED, affordable_count, unprotected_count
from holdfast.core.region.state.account_usage import owed
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk


class QuotaGate(Struct, frozen=True):
    """How many slots may be proposed, with code and message for the others."""

    most: int
    code: Code | None = None
    message: str = ""
    #: When it opens by itself; 0 if it does not.
    opens: Instant = 0
    #: For the payer gate: how many slots each account can pay, in order.
    each: tuple[int, ...] = ()

    def reason(self, waiting: int) -> PendingReason:
        """Return why this many slots wait."""
        return PendingReason((self.code or Code.OVER_GRANT).value, waiting, self.message)


OPEN = QuotaGate(UNLIMITED)


def pause_gate(tenant: str, overrides: ActiveOverrides) -> QuotaGate:
    """Check whether an operator paused scheduling for the tenant."""
    pause = overrides.pause_of(tenant)
    return QuotaGate(0, Code.PAUSED, "scheduling is paused by an override", pause.ends) if pause is not None else OPEN


def payer_gate(
    state: RegionState, accounts: tuple[str, ...], need: Resources, now: Instant, spent: dict[str, Resources]
) -> QuotaGate:
    """Check how many slots the accounts can pay together."""
    each = [affordable_count(state, account, now, need, spent.get(account, ZERO)) for account in accounts]
    if GRANT_ENDED in each:
        if each.count(GRANT_ENDED) == len(each):
            return QuotaGate(
                0, Code.GRANT_ENDED, f"the grant of {', '.join(accounts)} has ended: no new slot is admitted"
            )
        each = [max(0, one) for one in each]
    return QuotaGate(
        sum(each), Code.OVER_GRANT, f"{', '.join(accounts) or 'no account'}: the grant is used up", each=tuple(each)
    )


def protected_gate(
    state: RegionState,
    ask: SlotAsk,
    standing: Resources,
    taking: Mapping[str, Resources],
    beyond: Resources | None = None,
) -> QuotaGate:
    """Check how many slots leave protected capacity free, next to firm work in flight (`standing`).

    The part that its owners take, by account in `taking`, is no longer owed. Reclaimable work may use all of it. A slot
    with victims takes only what it needs `beyond` them.
    """
    if not ask.firm:
        return OPEN
    mine, paid_off = f"quota/{ask.tenant}", ZERO
    for account, taken in taking.items():
        if account != mine:
            paid_off = add(paid_off, subtract(owed(state, account), owed(state, account, taken)))
    most = unprotected_count(state, mine, standing, ask.template.need if beyond is None else beyond, paid_off)
    return QuotaGate(most, Code.PROTECTED, "the remaining capacity is protected for other tenants")
