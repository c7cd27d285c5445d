"""Metadata, owners, finalizers and conditions: what every object people see has in common."""

from __future__ import annotations

from holdfast.core.model.values.structs import Document, Instant, Revision

Labels = tuple[tuple[str, str], ...]


class Owner(Document, frozen=True):
    """The object that this one was made for; deleting the owner releases what it owns."""

    kind: str
    name: str
    uid: Revision


class Finalizer(Document, frozen=True):
    """What must be released before the object may go: by whom, and until when that is expected."""

    name: str
    owner: str
    deadline: Instant


class Deletion(Document, frozen=True):
    """Who asked for the end of the object, and when."""

    by: str
    at: Instant


class Meta(Document, frozen=True):
    """Metadata. `uid` and `revision` are log revisions; `generation` counts every change of the spec.

    `created` is when the first revision was committed.
    """

    name: str
    uid: Revision = 0
    tenant: str = ""
    generation: int = 1
    revision: Revision = 0
    labels: Labels = ()
    annotations: Labels = ()
    owner: Owner | None = None
    created_by: str = ""
    finalizers: tuple[Finalizer, ...] = ()
    deletion: Deletion | None = None
    created: Instant = 0
