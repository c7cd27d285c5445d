"""Grants: the parts of accounts that regions may use, offered, accepted and charged; and keys of accounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Instant, Revision, Row

#: Prefixes of accounts that have a limit in each region.
REGIONAL = ("recovery/", "reclaimable/")


class GrantOffer(Row, frozen=True):
    """One version of a grant that its region has not acknowledged yet."""

    version: int
    target: Resources


class Grant(Row, frozen=True):
    """The part of an account that one region may use. The account is `quota/T`, `recovery/B` or `emergency/UID`.

    The platform charges `offered`, the largest target since the last acknowledged version (RULES 7). It is the maximum
    of `settled` and the targets in `offers`, the unacknowledged versions, oldest first. `position` is the position of
    the region's log when it acknowledged, and `session` the session of that report.
    """

    ADDED: ClassVar[Mapping[str, int]] = {"session": 2, "weight": 3}

    uid: Revision
    revision: Revision
    account: str
    region: str
    version: int
    target: Resources
    offered: Resources
    ends: Instant
    protected: Resources = ZERO
    acknowledged: int = 0
    settled: Resources = ZERO
    offers: tuple[GrantOffer, ...] = ()
    position: Revision = 0
    session: Revision = 0
    weight: int = 1


class AccountDemand(Row, frozen=True):
    """The demand on an account in one region: the number of its replicas, and the resources they need."""

    count: int = 0
    amount: Resources = ZERO


class AcceptedGrant(Row, frozen=True):
    """The region's copy of a grant: the recorded version, the limit that applies, its end, and the tenant's weight."""

    ADDED: ClassVar[Mapping[str, int]] = {"weight": 3}

    account: str
    version: int
    target: Resources
    limit: Resources
    ends: Instant
    protected: Resources = ZERO
    weight: int = 1


class AccountUsage(Row, frozen=True):
    """The amount charged to an account, and the part of it that is placed on nodes now."""

    charged: Resources = ZERO
    placed: Resources = ZERO


def tenant_of(account: str) -> str:
    """Return the tenant whose account it is; empty if it may pay for several tenants."""
    kind, _, name = account.partition("/")
    return name if kind in ("quota", "reclaimable") else ""


def grant_key(region: str, account: str) -> str:
    """Return the key of the one grant of an account to a region."""
    return f"{region}|{account}"


def charge_key(account: str, region: str) -> str:
    """Return the key of the limit that an account counts against: per account, or per account and region for some
    kinds."""
    return f"{account}|{region}" if account.startswith(REGIONAL) else account
