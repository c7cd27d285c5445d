"""Documents from files, folders and stdin, in the order in which they can be sent, each with the lines it came from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from holdfast.api.documents.kinds import place_in_order
from holdfast.api.documents.yaml_files import Loaded, Unreadable, load
from holdfast.cli.nouns import named_in
from holdfast.cli.troubles import fault_line, misused

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
