"""Slices of an account that are lent to a region: offered, accepted, charged; and the names of accounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Instant, Revision, Row

#: How accounts begin that have a limit in each region.
REGIONAL = ("recovery/", "reclaimable/")


class GrantOffer(Row, frozen=True):
    """One version of a grant that its region has not acknowledged yet."""

    version: int
    target: Resources


class Grant(Row, frozen=True):
    """A slice of an account, lent to one region. The account is `quota/T`, `recovery/B` or `emergency/UID`.

    `offered` is the largest target since the last acknowledged version: that is what the platform charges (RULES 7). It
    is the greatest of `settled` and of every target in `offers`, the versions not acknowledged, oldest first.
    `position` is where its region's log was when it said so, and `session` the one in which it did.
    """

    ADDED: ClassVar[Mapping[str, int]] = {"session": 2}

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


class AccountDemand(Row, frozen=True):
    """What is asked of an account in one region: how many replicas run or are to run on it, and what they need."""

    count: int = 0
    amount: Resources = ZERO


class AcceptedGrant(Row, frozen=True):
    """A grant as its region holds it: the version it has logged, the limit it settled on, and until when."""

    account: str
    version: int
    target: Resources
    limit: Resources
    ends: Instant
    protected: Resources = ZERO


class AccountUsage(Row, frozen=True):
    """What an account is charged, and what of that stands on nodes now."""

    charged: Resources = ZERO
    placed: Resources = ZERO


def grant_key(region: str, account: str) -> str:
    """The key of the one grant of an account to a region."""
    return f"{region}|{account}"


def charge_key(account: str, region: str) -> str:
    """What shares one limit: an account over all regions, except that some have a limit of their own in each region."""
    return f"{account}|{region}" if account.startswith(REGIONAL) else account
