"""The fairness report: how tenants divide a region, or all regions, and what each is entitled to.

Tenants that use or want something divide what is not protected by their weights. Each is entitled to that part and to
its own protected amount, of any resource: it gets as much whenever it wants it, and more while others want less.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.model.values.resources import ZERO, Resources, amount_of, names_in
from holdfast.core.model.values.structs import Instant

#: The whole, in the parts that shares are reported in.
WHOLE = 1_000_000


class TenantFairness(Struct, frozen=True):
    """The share of one tenant, in millionths: of the `resource` of which it has the largest part.

    `recent` is its mean share in the last hour, and `waiting` the number of its waiting slots, the oldest `since` then.
    """

    tenant: str
    weight: int = 1
    charged: Resources = ZERO
    protected: Resources = ZERO
    resource: str = ""
    share: int = 0
    entitled: int = 0
    recent: int | None = None
    waiting: int = 0
    since: Instant | None = None


def dominant_part(used: Resources, whole: Resources) -> tuple[int, str]:
    """Return the largest part of any resource, in millionths, and that resource; empty if nothing is used."""
    parts = [
        (amount_of(used, name) * WHOLE // amount_of(whole, name), name)
        for name in names_in(used)
        if amount_of(whole, name) and amount_of(used, name)
    ]
    return max(parts, key=lambda part: part[0], default=(0, ""))


def with_shares(rows: Sequence[TenantFairness], whole: Resources) -> list[TenantFairness]:
    """Return the rows with the shares of a capacity, and those that tenants are entitled to."""
    kept = {row.tenant: min(WHOLE, dominant_part(row.protected, whole)[0]) for row in rows}
    free, weights = max(0, WHOLE - sum(kept.values())), sum(row.weight for row in rows)
    found = []
    for row in rows:
        share, resource = dominant_part(row.charged, whole)
        entitled = kept[row.tenant] + free * row.weight // weights
        found.append(replace(row, share=share, resource=resource, entitled=entitled))
    return found
