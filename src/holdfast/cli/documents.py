"""Documents from files, folders and stdin, in the order in which they can be sent, each with the lines it came from.

Documents checked without a server, by the code that the server runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.api.kinds import place_in_order
from holdfast.api.serialization.yaml_documents import Loaded, load
from holdfast.api.serialization.yaml_parser import Unreadable
from holdfast.cli.context import Context
from holdfast.cli.errors import fault_line, misused
from holdfast.cli.targets import find, named_in

if TYPE_CHECKING:
    from holdfast.api.serialization.field_errors import Fault


SUFFIXES = (".yaml", ".yml", ".json")


class Source(NamedTuple):
    """A document, and where it was written."""

    document: dict[str, Any]
    loaded: Loaded

    def where(self, pointer: str = "") -> str:
        """The file and line of a field or, where that is missing, of what it is missing in."""
        return f"{self.loaded.source}:{self.loaded.line_of(pointer)}"

    def told(self, pointer: str, message: str, hint: str = "") -> str:
        """What is wrong with a field: `web.yaml:7: workload/shop/web: spec.replica: ...`."""
        return f"{self.where(pointer)}: {named_in(self.document)}: {fault_line(pointer, message, hint)}"


def read_all(paths: Sequence[str], *, recursive: bool = False) -> list[Source]:
    """Every document, in the order in which they can be sent. Raises `Trouble` with all faults when there is one."""
    if not paths:
        raise misused("no file was named", "`-f FILE`, or `-f -` for stdin")
    found: list[Source] = []
    faults: list[str] = []
    for name, text in _texts(paths, recursive):
        try:
            found += [Source(one.tree, one) for one in load(text, name)]
        except Unreadable as unreadable:
            faults.append(str(unreadable))
    faults += [fault for source in found for fault in _faults(source)]
    faults += _doubles(found) if not faults else []
    if not found and not faults:
        raise misused(f"there is no document in {', '.join('stdin' if path == '-' else path for path in paths)}")
    if faults:
        raise misused(f"nothing was sent: {len(faults)} mistake{'s' if len(faults) > 1 else ''}", lines=faults)
    return sorted(found, key=lambda source: place_in_order(source.document["kind"]))


def _texts(paths: Sequence[str], recursive: bool) -> Iterator[tuple[str, str]]:
    for path in paths:
        names = list(_within(path, recursive)) if os.path.isdir(path) else [path]
        if not names:
            raise misused(f"{path}: no files there that end with {', '.join(SUFFIXES)}")
        for name in names:
            try:
                yield ("stdin", sys.stdin.read()) if name == "-" else (name, _text(name))
            except (OSError, UnicodeDecodeError) as error:
                raise misused(f"{name}: {getattr(error, 'strerror', None) or error}") from None


def _text(name: str) -> str:
    with open(name, encoding="utf-8") as file:
        return file.read()


def _within(folder: str, recursive: bool) -> Iterator[str]:
    for here, inner, names in os.walk(folder):
        inner[:] = sorted(inner) if recursive else []
        yield from (os.path.join(here, name) for name in sorted(names) if name.endswith(SUFFIXES))


def _faults(source: Source) -> Iterator[str]:
    """What makes a document one that cannot even be named."""
    document: Any = source.document
    if not isinstance(document, dict):
        yield f"{source.where()}: a document is a map with apiVersion, kind, metadata and spec"
    elif source.loaded.faults:
        yield from (source.told(fault.pointer, fault.message, fault.hint) for fault in source.loaded.faults)
    elif not str(document.get("kind") or "").isalnum():
        yield f"{source.where('/kind')}: the kind is missing; such as `kind: Workload`"
    elif not isinstance(document.get("metadata"), dict) or not document["metadata"].get("name"):
        yield f"{source.where('/metadata')}: {document['kind']}: metadata.name is missing"
    elif not set(str(document["metadata"]["name"]).split("/")).isdisjoint(("", ".", "..")):
        yield source.told("/metadata/name", "this is no name")


def _doubles(found: Sequence[Source]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for source in found:
        what = named_in(source.document)
        if what in seen:
            yield f"{source.where()}: {what} is also at {seen[what]}"
        seen[what] = source.where()


def faults_of(source: Source) -> list[str]:
    """What is wrong with a document, each with its file, line and field."""
    from holdfast.api.resources.validation import check
    from holdfast.api.resources.writable import read_object
    from holdfast.api.serialization.field_errors import Faulty

    try:
        found: Sequence[Fault] = check(read_object(source.document))
    except Faulty as faulty:
        found = faulty.faults
    return [source.told(fault.pointer, fault.message, fault.hint) for fault in found]


def refuse_faulty(sources: Sequence[Source]) -> None:
    """Raise `Trouble` with everything that is wrong, if something is."""
    found = [(source, line) for source in sources for line in faults_of(source)]
    if found:
        count = f"{len(found)} mistake{'s' if len(found) > 1 else ''}"
        raise misused(f"nothing was sent: {count}", explained_by(found[0][0]), [line for _, line in found])


def explained_by(source: Source) -> str:
    """Where the fields of a document are explained."""
    kind = find(source.document["kind"])
    return f"`holdfast schema {kind.name.lower()}` explains the fields" if kind else "`holdfast schema` lists the kinds"


def with_tenant(source: Source, context: Context) -> Source:
    """The document with the context's tenant, where it needs one and names none. Raises `Trouble` without one."""
    kind = find(source.document["kind"])
    meta = source.document["metadata"]
    if kind is None or not kind.tenanted or meta.get("tenant"):
        return source
    if not context.tenant:
        said = f"{source.where()}: {kind.name.lower()}/{meta['name']}: which tenant's?"
        raise misused(said, "write metadata.tenant, or give --tenant NAME")
    return Source({**source.document, "metadata": {**meta, "tenant": context.tenant}}, source.loaded)


def by_region(sources: Sequence[Source], context: Context, asked: str) -> list[tuple[str, list[Source]]]:
    """Which server gets what: what only a region keeps goes there, everything else to the platform.

    `asked` is what a flag said. Where nothing is for a region somebody meant something else by it, and is told.
    """
    here: list[Source] = []
    there: list[Source] = []
    for source in sources:
        kind = find(source.document["kind"])
        (there if kind is not None and "platform" not in kind.ledger else here).append(source)
    if asked and not there and here:
        first = here[0]
        said = f"--region {asked}: {named_in(first.document)} is kept by the platform and not in regions"
        raise misused(f"{first.where()}: {said}", "leave --region out; where a workload may be, spec.placement says")
    return [(region, group) for region, group in (("", here), (asked or context.region, there)) if group]
