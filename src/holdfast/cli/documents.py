"""Documents from files, folders and stdin, in the order in which they can be sent, each with its source lines.

Also checks them without a server, with the server's own code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.api.kinds import apply_order, find_kind
from holdfast.api.serialization.yaml_documents import YamlDocument, load_documents
from holdfast.api.serialization.yaml_parser import UnreadableText
from holdfast.cli.context import CliContext
from holdfast.cli.errors import format_field_error, usage_error
from holdfast.cli.targets import object_label

if TYPE_CHECKING:
    from holdfast.api.serialization.field_errors import FieldError


SUFFIXES = (".yaml", ".yml", ".json")


class SourceDocument(NamedTuple):
    """A document and its source."""

    document: dict[str, Any]
    loaded: YamlDocument

    def where(self, pointer: str = "") -> str:
        """Return file and line of a field; for a missing field, those of the enclosing one."""
        return f"{self.loaded.source}:{self.loaded.line_of(pointer)}"

    def told(self, pointer: str, message: str, hint: str = "") -> str:
        """Format a field's problem: `web.yaml:7: workload/shop/web: spec.replica: ...`."""
        return f"{self.where(pointer)}: {object_label(self.document)}: {format_field_error(pointer, message, hint)}"


def read_documents(paths: Sequence[str], *, recursive: bool = False) -> list[SourceDocument]:
    """Read all documents, in the order in which they can be sent. Raises `CliError` with all problems."""
    if not paths:
        raise usage_error("no file given", "`-f FILE`, or `-f -` for stdin")
    found: list[SourceDocument] = []
    faults: list[str] = []
    for name, text in _texts(paths, recursive):
        try:
            found += [SourceDocument(one.tree, one) for one in load_documents(text, name)]
        except UnreadableText as unreadable:
            faults.append(str(unreadable))
    faults += [fault for source in found for fault in _faults(source)]
    faults += _duplicates(found) if not faults else []
    if not found and not faults:
        raise usage_error(f"no document in {', '.join('stdin' if path == '-' else path for path in paths)}")
    if faults:
        raise usage_error(f"nothing was sent: {len(faults)} mistake{'s' if len(faults) > 1 else ''}", lines=faults)
    return sorted(found, key=lambda source: apply_order(source.document["kind"]))


def _texts(paths: Sequence[str], recursive: bool) -> Iterator[tuple[str, str]]:
    for path in paths:
        names = list(_within(path, recursive)) if os.path.isdir(path) else [path]
        if not names:
            raise usage_error(f"{path}: no files with suffix {', '.join(SUFFIXES)}")
        for name in names:
            try:
                yield ("stdin", sys.stdin.read()) if name == "-" else (name, _text(name))
            except (OSError, UnicodeDecodeError) as error:
                raise usage_error(f"{name}: {getattr(error, 'strerror', None) or error}") from None


def _text(name: str) -> str:
    with open(name, encoding="utf-8") as file:
        return file.read()


def _within(folder: str, recursive: bool) -> Iterator[str]:
    for here, inner, names in os.walk(folder):
        inner[:] = sorted(inner) if recursive else []
        yield from (os.path.join(here, name) for name in sorted(names) if name.endswith(SUFFIXES))


def _faults(source: SourceDocument) -> Iterator[str]:
    """Yield the problems that leave a document without an identity."""
    document: Any = source.document
    if not isinstance(document, dict):
        yield f"{source.where()}: a document is a map with apiVersion, kind, metadata and spec"
    elif source.loaded.faults:
        yield from (source.told(fault.pointer, fault.message, fault.hint) for fault in source.loaded.faults)
    elif not str(document.get("kind") or "").isalnum():
        yield f"{source.where('/kind')}: the kind is missing, for example `kind: Workload`"
    elif not isinstance(document.get("metadata"), dict) or not document["metadata"].get("name"):
        yield f"{source.where('/metadata')}: {document['kind']}: metadata.name is missing"
    elif not set(str(document["metadata"]["name"]).split("/")).isdisjoint(("", ".", "..")):
        yield source.told("/metadata/name", "not a valid name")


def _duplicates(found: Sequence[SourceDocument]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for source in found:
        what = object_label(source.document)
        if what in seen:
            yield f"{source.where()}: {what} is also at {seen[what]}"
        seen[what] = source.where()


def validation_errors(source: SourceDocument) -> list[str]:
    """Return a document's problems, each with its file, line and field."""
    from holdfast.api.resources.schemas import parse_object
    from holdfast.api.resources.validation import validate_object
    from holdfast.api.serialization.field_errors import InvalidDocument

    try:
        found: Sequence[FieldError] = validate_object(parse_object(source.document))
    except InvalidDocument as faulty:
        found = faulty.faults
    return [source.told(fault.pointer, fault.message, fault.hint) for fault in found]


def require_valid(sources: Sequence[SourceDocument]) -> None:
    """Raise `CliError` with all problems, if there are any."""
    found = [(source, line) for source in sources for line in validation_errors(source)]
    if found:
        count = f"{len(found)} mistake{'s' if len(found) > 1 else ''}"
        raise usage_error(f"nothing was sent: {count}", schema_hint(found[0][0]), [line for _, line in found])


def schema_hint(source: SourceDocument) -> str:
    """Return the command that explains the fields of a document."""
    kind = find_kind(source.document["kind"])
    return f"`holdfast schema {kind.name.lower()}` explains the fields" if kind else "`holdfast schema` lists the kinds"


def with_tenant(source: SourceDocument, context: CliContext) -> SourceDocument:
    """Return the document with the context's tenant, if it needs one and names none. Raises `CliError` without one."""
    kind = find_kind(source.document["kind"])
    meta = source.document["metadata"]
    if kind is None or not kind.tenanted or meta.get("tenant"):
        return source
    if not context.tenant:
        said = f"{source.where()}: {kind.name.lower()}/{meta['name']}: no tenant given"
        raise usage_error(said, "set metadata.tenant, or pass --tenant NAME")
    return SourceDocument({**source.document, "metadata": {**meta, "tenant": context.tenant}}, source.loaded)


def by_region(
    sources: Sequence[SourceDocument], context: CliContext, asked: str
) -> list[tuple[str, list[SourceDocument]]]:
    """Group documents by server: kinds that only regions store go to the region, all others to the platform.

    `asked` is the flag's value. A flag that no document needs is rejected as a mistake.
    """
    here: list[SourceDocument] = []
    there: list[SourceDocument] = []
    for source in sources:
        kind = find_kind(source.document["kind"])
        (there if kind is not None and "platform" not in kind.ledger else here).append(source)
    if asked and not there and here:
        first = here[0]
        said = f"--region {asked}: {object_label(first.document)} is stored by the platform, not by regions"
        raise usage_error(f"{first.where()}: {said}", "leave --region out; spec.placement limits a workload's regions")
    return [(region, group) for region, group in (("", here), (asked or context.region, there)) if group]
