"""Serializers of complete documents: `apiVersion`, `kind`, `metadata`, `spec`, `status`.

A client parses all of a document. A server that accepts a written document parses only the sender's fields and ignores
those of the ledger (status, generation, creator, finalizers). So a document that was read can be written back.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.api.kinds import API_VERSION, find_kind, public_name
from holdfast.api.serialization.composites import StructSerializer, refuse_unknown
from holdfast.api.serialization.field_errors import FieldErrors, child_pointer, describe_value
from holdfast.api.serialization.scalars import INVALID, Serializer
from holdfast.api.spelling import did_you_mean

#: The parts of a document, in the order in which they are shown.
PARTS = {"apiVersion": "", "kind": "", "metadata": "meta", "spec": "spec", "status": "status"}
#: The metadata fields that a sender may set. The uid and the revision name the object that it read before.
SENDER_FIELDS = ("name", "tenant", "labels", "annotations", "uid", "revision")
MARKS = ("labels", "annotations")


class ObjectSerializer:
    """A document of one kind, with all of its fields."""

    def __init__(self, struct: type[Struct], meta: StructSerializer, spec: Serializer, status: Serializer) -> None:
        self.struct, self.meta, self.spec, self.status = struct, meta, spec, status
        self.kind = public_name(struct)

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if not isinstance(tree, dict):
            faults.expected(at, f"a document of kind {self.kind}", tree)
            return INVALID
        before = len(faults.found)
        refuse_version(tree, at, faults)
        if tree.get("kind") != self.kind:
            faults.expected(child_pointer(at, "kind"), self.kind, tree.get("kind"))
        values = self._parts(tree, at, faults)
        refuse_unknown(tree, PARTS, at, faults)
        return self.struct(**values) if len(faults.found) == before else INVALID

    def _parts(self, tree: dict[str, Any], at: str, faults: FieldErrors) -> dict[str, Any]:
        values = {
            "meta": self.meta.parse(tree.get("metadata", {}), child_pointer(at, "metadata"), faults),
            "spec": self.spec.parse(tree.get("spec", {}), child_pointer(at, "spec"), faults),
        }
        if "status" in tree:
            values["status"] = self.status.parse(tree["status"], child_pointer(at, "status"), faults)
        return values

    def render(self, value: Any, secrets: bool = False, /) -> Any:
        return {
            "apiVersion": API_VERSION,
            "kind": self.kind,
            "metadata": self.meta.render(value.meta, secrets),
            "spec": self.spec.render(value.spec, secrets),
            "status": self.status.render(value.status, secrets),
        }


class WritableObjectSerializer(ObjectSerializer):
    """A document as users write it: fields of the ledger are ignored."""

    @property
    def tenanted(self) -> bool:
        """Whether its objects belong to a tenant and have names within it."""
        kind = find_kind(self.kind)
        return kind is not None and kind.tenanted

    @property
    def unmarked(self) -> tuple[str, ...]:
        """The marks that objects of this kind do not have."""
        kind = find_kind(self.kind)
        return MARKS if kind is not None and not kind.marked else ()

    def _parts(self, tree: dict[str, Any], at: str, faults: FieldErrors) -> dict[str, Any]:
        return {
            "meta": self._meta(tree.get("metadata", {}), child_pointer(at, "metadata"), faults),
            "spec": self.spec.parse(tree.get("spec", {}), child_pointer(at, "spec"), faults),
        }

    def _meta(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if not isinstance(tree, dict):
            faults.expected(at, "a map of name, labels and annotations", tree)
            return INVALID
        said_by_sender = {
            name: item for name, item in tree.items() if name in SENDER_FIELDS or name not in self.meta.fields
        }
        meta = self.meta.parse(said_by_sender, at, faults)
        if self.tenanted and not tree.get("tenant"):
            faults.add(child_pointer(at, "tenant"), f"a {self.kind} belongs to a tenant: tenant is missing")
        elif not self.tenanted and tree.get("tenant"):
            faults.add(child_pointer(at, "tenant"), f"a {self.kind} belongs to no tenant", "leave it out")
        for mark in self.unmarked:
            if tree.get(mark):
                faults.add(child_pointer(at, mark), f"a {self.kind} has no {mark}", "leave them out")
        return meta


class AnyObjectSerializer:
    """A document of one of several kinds."""

    def __init__(self, forms: tuple[ObjectSerializer, ...]) -> None:
        self.forms = {form.kind: form for form in forms}

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if not isinstance(tree, dict):
            faults.expected(at, "a document with apiVersion, kind, metadata and spec", tree)
            return INVALID
        kind = tree.get("kind")
        form = self.forms.get(kind) if isinstance(kind, str) else None
        if form is not None:
            return form.parse(tree, at, faults)
        refuse_version(tree, at, faults)
        refuse_kind(kind, self.forms, child_pointer(at, "kind"), faults)
        return INVALID

    def render(self, value: Any, secrets: bool = False, /) -> Any:
        return self.forms[public_name(type(value))].render(value, secrets)


def refuse_version(tree: dict[Any, Any], at: str, faults: FieldErrors) -> None:
    """Add a fault unless the document has the API version of this program."""
    version = tree.get("apiVersion")
    if version == API_VERSION:
        return
    hint = f"this version reads apiVersion: {API_VERSION}"
    if "apiVersion" not in tree:
        faults.add(child_pointer(at, "apiVersion"), "apiVersion is missing", hint)
    else:
        faults.add(child_pointer(at, "apiVersion"), f"there is no apiVersion {describe_value(version)}", hint)


def refuse_kind(kind: object, kinds: dict[str, Any], at: str, faults: FieldErrors) -> None:
    """Add the fault of a kind that is not in the list."""
    if kind is None:
        faults.add(at, "kind is missing", f"one of {', '.join(kinds)}")
    elif isinstance(kind, str) and (known := find_kind(kind)) is not None and known.name == kind:
        faults.add(at, f"a {kind} cannot be written", f"write one of {', '.join(kinds)}")
    else:
        near = did_you_mean(kind, kinds) if isinstance(kind, str) else ""
        faults.expected(at, "a kind that can be written", kind, near or f"one of {', '.join(kinds)}")
