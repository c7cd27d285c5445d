"""Who names a template, and when one is forgotten.

A template is stored once under its digest, however many workloads name it. A workload keeps every template that it has
named in its life: a region may still run any of them, whatever the newest spec and assignments say, and only the end of
the workload proves that none does. Until then an old one may be assigned again, which is how a rollout goes back.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.model.shapes import Revision
from holdfast.core.platform.events import TemplatesForgotten
from holdfast.core.platform.state import PlatformState


def is_known_to(state: PlatformState, tenant: str, digest: str) -> bool:
    """Whether a workload of this tenant names the template, or has named it."""
    return any(name == tenant for name, _ in state.template_uses.get(digest) or ())


def forgotten(state: PlatformState, workloads: Iterable[Revision]) -> tuple[TemplatesForgotten, ...]:
    """The templates that nobody names once these workloads are gone."""
    going: dict[str, int] = {}
    for uid in workloads:
        for digest in state.templates_of.get(uid) or ():
            going[digest] = going.get(digest, 0) + 1
    gone = sorted(digest for digest, count in going.items() if count == _workloads_naming(state, digest))
    return (TemplatesForgotten(tuple(gone)),) if gone else ()


def _workloads_naming(state: PlatformState, digest: str) -> int:
    return sum(count for _, count in state.template_uses.get(digest) or ())
