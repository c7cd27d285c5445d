"""The numbers the promises stand on, and the one function that refuses an unsafe set.

All times are milliseconds. Each default is where we start; `unsafe` says which sets would break a promise, and why.
"""

from __future__ import annotations

from holdfast.core.model.shapes import Document


class Settings(Document, frozen=True):
    """Every number that a ledger judges by."""

    session_lease: int = 10_000
    proof_interval: int = 500
    drift_per_million: int = 1_000
    grace: int = 10_000
    kill_margin: int = 1_000
    fence_time: int = 25_000
    suspect_after: int = 6_000
    lost_after: int = 20_000
    right_lease: int = 60_000
    right_margin: int = 5_000
    proposal_life: int = 5_000
    reservation_life: int = 30_000
    grant_life: int = 86_400_000
    retry_window: int = 86_400_000
    sent_ahead: int = 300_000
    keys_per_actor: int = 10_000
    override_life: int = 7 * 86_400_000
    breach_deadline: int = 600_000
    finalizer_deadline: int = 600_000


DEFAULTS = Settings()


def drifted(duration: int, settings: Settings) -> int:
    """The longest that `duration` can last on a clock within the drift bound, rounded up."""
    return duration + -(-duration * settings.drift_per_million // 1_000_000)


def unsafe(settings: Settings) -> list[str]:
    """Why this set would break a promise; empty when it is safe."""
    s = settings
    found = [
        f"{name} must be above zero"
        for name in s.__struct_fields__
        if getattr(s, name) <= 0 and name not in ("drift_per_million", "grace")
    ]
    if s.drift_per_million < 0 or s.grace < 0:
        found.append("drift_per_million and grace cannot be negative")
    if s.proof_interval * 5 > s.session_lease:
        found.append("proof_interval may be at most a fifth of session_lease: a renewal must be worth something")
    if s.fence_time < drifted(s.session_lease, s) + s.grace + s.kill_margin:
        found.append("fence_time must cover the drifted lease, grace and kill_margin: otherwise two may run")
    if s.lost_after <= s.suspect_after:
        found.append("lost_after must be longer than suspect_after: suspicion comes first")
    if s.grant_life < 2 * s.lost_after:
        found.append("grant_life must outlast a region's loss, or every cut ends its grants")
    return found
