"""Who names a template, and when one is forgotten.

A template is stored once under its digest, however many workloads and assignments name it, and goes in the commit in which the
last of them stops naming it. Nothing else removes one, so an assignment never names what the platform cannot ship.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.allotment import Assignment
from holdfast.core.model.workload import Workload
from holdfast.core.platform.events import TemplatesForgotten
from holdfast.core.platform.state import PlatformState


def named_by_workload(workload: Workload) -> list[str]:
    """The template that a workload names: that of its spec."""
    return [template_digest(workload.spec.template)]


def named_by_assignments(assignments: Iterable[Assignment]) -> list[str]:
    """The templates that assignments name, once for each time."""
    return [share.template for assignment in assignments for share in assignment.shares]


def is_known_to(state: PlatformState, tenant: str, digest: str) -> bool:
    """Whether a workload or an assignment of this tenant names the template now."""
    return any(name == tenant for name, _ in state.template_uses.get(digest) or ())


def forgotten(state: PlatformState, before: Iterable[str], after: Iterable[str]) -> tuple[TemplatesForgotten, ...]:
    """What must be forgotten when the names `before` are replaced by the names `after`."""
    change: dict[str, int] = {}
    for digest in before:
        change[digest] = change.get(digest, 0) - 1
    for digest in after:
        change[digest] = change.get(digest, 0) + 1
    gone = sorted(digest for digest, by in change.items() if by < 0 and _uses(state, digest) + by == 0)
    return (TemplatesForgotten(tuple(gone)),) if gone else ()


def _uses(state: PlatformState, digest: str) -> int:
    return sum(count for _, count in state.template_uses.get(digest) or ())
