"""Metadata, owners, finalizers and deletion: the common part of all API objects."""

from __future__ import annotations

from holdfast.core.model.values.structs import Document, Instant, Revision

Labels = tuple[tuple[str, str], ...]


class Owner(Document, frozen=True):
    """The object that this one was created for; deleting the owner releases it."""

    kind: str
    name: str
    uid: Revision


class Finalizer(Document, frozen=True):
    """A step that must finish before the object is deleted: its name, the component that does it, and a deadline."""

    name: str
    owner: str
    deadline: Instant


class Deletion(Document, frozen=True):
    """The request to delete the object: by whom, and when."""

    by: str
    at: Instant


class Meta(Document, frozen=True):
    """Metadata. `uid` and `revision` are log revisions; `generation` counts every change of the spec.

    The time of the first commit is `created`.
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
