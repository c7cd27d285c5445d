"""What a tenant used of all regions within the last hour: sums over spans of ten minutes.

    share of now ──▶ at each change, added up for the time that it lasted ──▶ the mean of the last six spans

It follows from the regions' reports in the log, so every server and every replay has the same.
"""

from __future__ import annotations

from typing import ClassVar

from holdfast.core.model.values.structs import Duration, Instant, Row

SPAN_MS: Duration = 600_000
#: Spans of the window, the present one included.
SPANS = 6


class UsageWindow(Row, frozen=True):
    """A tenant's share of all regions, in millionths, and since when; and by span, its number since 1970 and the sum of
    share and milliseconds."""

    SINCE: ClassVar[int] = 3

    share: int = 0
    since: Instant = 0
    spans: tuple[tuple[int, int], ...] = ()


def with_share(window: UsageWindow, share: int, at: Instant) -> UsageWindow:
    """Return the window with another share from now on."""
    now = at // SPAN_MS
    sums = {number: amount for number, amount in window.spans if number > now - SPANS}
    start = max(window.since, (now - SPANS + 1) * SPAN_MS)
    while start < at:
        number = start // SPAN_MS
        end = min(at, (number + 1) * SPAN_MS)
        sums[number] = sums.get(number, 0) + window.share * (end - start)
        start = end
    return UsageWindow(share, max(at, window.since), tuple((n, amount) for n, amount in sorted(sums.items()) if amount))


def recent_share(window: UsageWindow, now: Instant) -> int:
    """Return the mean share of the last five spans and the present one."""
    whole = now - (now // SPAN_MS - SPANS + 1) * SPAN_MS
    return sum(amount for _, amount in with_share(window, window.share, now).spans) // whole
