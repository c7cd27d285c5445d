"""The settings of a ledger, and the function that rejects an unsafe set.

All times are in milliseconds. `settings_problems` returns the guarantees that a set would break, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from holdfast.core.model.values.structs import Document, Duration

#: Ten years: a time plus a setting stays a representable time.
NUMBER_MAX = 10 * 365 * 86_400_000
#: A day: a fence that has begun is never shortened, so a mistake lasts at most this long.
FENCE_MAX = 86_400_000


class Settings(Document, frozen=True):
    """Every number that a ledger decides by."""

    session_lease: Duration = 10_000
    proof_interval: Duration = 500
    drift_per_million: int = 1_000
    grace: Duration = 10_000
    kill_margin: Duration = 1_000
    fence_time: Duration = 25_000
    suspect_after: Duration = 6_000
    lost_after: Duration = 20_000
    right_lease: Duration = 60_000
    right_margin: Duration = 5_000
    proposal_life: Duration = 5_000
    reservation_life: Duration = 30_000
    grant_life: Duration = 86_400_000
    retry_window: Duration = 86_400_000
    sent_ahead: Duration = 300_000
    keys_per_actor: int = 10_000
    override_life: Duration = 7 * 86_400_000
    breach_deadline: Duration = 600_000
    finalizer_deadline: Duration = 600_000
    overflow_after: Duration = 30_000
    rebalance_window: Duration = 60_000
    rebalance_max: int = 100
    offer_life: Duration = 300_000
    preempt_after: Duration = 30_000
    preempt_max: int = 1_000

    ADDED: ClassVar[Mapping[str, int]] = {"preempt_after": 3, "preempt_max": 3}


DEFAULTS = Settings()


class AgentTimes(Struct, frozen=True, rename="camel"):
    """The settings that an agent receives with every renewal and must observe, so that the fence is effective."""

    lease: Duration
    grace: Duration
    kill_margin: Duration
    fence: Duration


def agent_times(settings: Settings) -> AgentTimes:
    return AgentTimes(settings.session_lease, settings.grace, settings.kill_margin, settings.fence_time)


DEFAULT_TIMES = agent_times(DEFAULTS)


def with_drift(duration: int, settings: Settings) -> int:
    """Return the longest that `duration` can last on a clock within the drift bound, rounded up."""
    return duration + -(-duration * settings.drift_per_million // 1_000_000)


def outlasting(settings: Settings) -> Duration:
    """Return how long a run with a leased right may outlast that right in a region. A leader starts just before the end
    and another one after that, each within a session lease; then unreported runs are fenced."""
    return 2 * settings.session_lease + settings.fence_time


def settings_problems(settings: Settings) -> list[str]:
    """Return why this set would break a guarantee; empty if it is safe."""
    s = settings
    found = [
        f"{name} must be above zero"
        for name in s.__struct_fields__
        if getattr(s, name) <= 0 and name not in ("drift_per_million", "grace", "preempt_after")
    ]
    found += [f"{name} may be at most {NUMBER_MAX}" for name in s.__struct_fields__ if getattr(s, name) > NUMBER_MAX]
    if s.fence_time > FENCE_MAX:
        found.append(f"fence_time may be at most {FENCE_MAX}: a fence that has begun is not shortened")
    if s.drift_per_million < 0 or s.grace < 0 or s.preempt_after < 0:
        found.append("drift_per_million, grace and preempt_after cannot be negative")
    if s.proof_interval * 5 > s.session_lease:
        found.append("proof_interval may be at most a fifth of session_lease: a session must survive missed renewals")
    if s.fence_time < with_drift(s.session_lease, s) + s.grace + s.kill_margin:
        found.append("fence_time must cover the drifted lease, grace and kill_margin: otherwise two runs may overlap")
    if s.lost_after <= s.suspect_after:
        found.append("lost_after must be longer than suspect_after: suspicion comes first")
    if s.grant_life < 2 * s.lost_after:
        found.append("grant_life must outlast a region's loss, or every cut ends its grants")
    return found
