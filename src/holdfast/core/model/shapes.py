"""Two kinds of struct, and why there are two.

A *document* is what people write and read: named fields, camelCase outside, unknown fields refused. A *row* is what
the log and the tables hold by the million: encoded as an array in field order, without the collector's header. Both are
frozen: changing an object means replacing it, so that a fork of the state copies references only.

Both say which level of the log's format added them, or some of their fields (see `ledger.levels`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from holdfast.core.model.defaults import Canonical


class Document(Canonical, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """An object, or a part of one, that people write."""

    #: By field: the level that added it. It has a default, which is what it holds in logs of lower levels.
    ADDED: ClassVar[Mapping[str, int]] = {}


class Row(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A compact record. It never refers back to what refers to it, so the collector need not look at it."""

    #: The level that added it: below that it cannot be written.
    SINCE: ClassVar[int] = 1
    #: By field: the level that added it. Those come last and have a default, which is what they hold below that.
    ADDED: ClassVar[Mapping[str, int]] = {}
    #: By field: how it is written below level 2, where that is not as it is held.
    LOWERED: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}


# Whole numbers inside; `form` says how people see them (see `api.documents`). Decoding does not look at it.

#: A log revision packed into one integer (see `ledger.revision`). Uids and epochs are revisions.
Revision = Annotated[int, Meta(extra={"form": "revision"})]
#: Ledger time in milliseconds since 1970, as the leader stamped it.
Instant = Annotated[int, Meta(extra={"form": "instant"})]
#: A span of time in milliseconds.
Duration = Annotated[int, Meta(extra={"form": "duration"})]
#: A share of something, in percent.
Percent = Annotated[int, Meta(extra={"form": "percent"})]
#: Text that is taken and never shown again.
Secret = Annotated[str, Meta(extra={"form": "secret"})]
#: The identity of a slot: (workload uid, ordinal).
SlotKey = tuple[int, int]
