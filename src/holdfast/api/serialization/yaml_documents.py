"""Many documents in one text, YAML or JSON, each with its lines; and back to text.

Only plain values are read: maps with text as keys, lists, text, numbers, true, false and null. Times stay text, and so
do words that older YAML reads as something else (`no`, `0777`, `12:30`). Aliases are expanded, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml  # type: ignore[import-untyped]

from holdfast.api.serialization.field_errors import FieldError, FieldErrors, decoder, format_error
from holdfast.api.serialization.yaml_parser import UnreadableText, parse_trees

TEXT_MAX = 4_000_000

_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class YamlDocument:
    """One document of a text: its tree, its faults so far, and the line of every value."""

    def __init__(self, source: str, tree: Any, lines: dict[str, int], faults: Iterable[FieldError]) -> None:
        self.source, self.tree, self.faults = source, tree, tuple(faults)
        self._lines = lines

    def line_of(self, pointer: str) -> int:
        """Return the line of the value at this pointer, or of the nearest value that contains it."""
        while pointer not in self._lines and pointer:
            pointer = pointer.rpartition("/")[0]
        return self._lines.get(pointer, 1)

    def told(self, fault: FieldError) -> str:
        """Return a fault as users read it: `file:line: kind/name: spec.replicas: message (hint)`."""
        return f"{self.source}:{self.line_of(fault.pointer)}: {self.title}: {format_error(fault)}"

    @property
    def title(self) -> str:
        """The kind and name of the document, as far as it has them."""
        tree = self.tree if isinstance(self.tree, dict) else {}
        meta = tree.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        kind = tree.get("kind")
        known = [part[:128] for part in (kind, name) if isinstance(part, str) and part]
        return "/".join(known) or "document"


def load_documents(text: str, source: str) -> list[YamlDocument]:
    """Return every document in the text, without empty ones. A list of documents, or one of kind List, becomes its
    items.

    A fault inside a document, such as a duplicate key, is in its `faults`. A text that cannot be parsed raises
    `UnreadableText`.
    """
    if len(text) > TEXT_MAX:
        raise UnreadableText(source, 1, f"{len(text)} characters; at most {TEXT_MAX} are accepted")
    try:
        return [one for tree in parse_trees(yaml.parse(text, Loader=_LOADER), source) for one in _parted(source, *tree)]
    except yaml.MarkedYAMLError as error:
        # A pair of surrogate escapes for one character is valid in JSON and not in YAML.
        parsed = _json(text, source)
        if parsed is not None:
            return parsed
        mark = error.problem_mark or error.context_mark
        raise UnreadableText(source, mark.line + 1 if mark else 1, str(error.problem or error.context)) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise UnreadableText(source, 1, " ".join(str(error).split())[:200]) from None


def _parted(source: str, tree: Any, lines: dict[str, int], faults: list[FieldError]) -> list[YamlDocument]:
    """Return the document, or its items if it is a list."""
    if tree is None and not faults:
        return []
    listed = isinstance(tree, dict) and tree.get("kind") == "List" and isinstance(tree.get("items"), list)
    if not isinstance(tree, list) and not listed:
        return [YamlDocument(source, tree, lines, faults)]
    prefix, items = ("/items", tree["items"]) if isinstance(tree, dict) else ("", tree)
    places: list[dict[str, int]] = [{} for _ in items]
    wrong: list[list[FieldError]] = [[] for _ in items]
    whole = []
    for pointer, line in lines.items():
        index, inner = _inside(pointer, prefix)
        if 0 <= index < len(items):
            places[index][inner] = line
    for fault in faults:
        index, inner = _inside(fault.pointer, prefix)
        if 0 <= index < len(items):
            wrong[index].append(fault._replace(pointer=inner))
        else:
            whole.append(fault)
    found = [YamlDocument(source, *one) for one in zip(items, places, wrong, strict=True)]
    return [YamlDocument(source, tree, lines, whole), *found] if whole else found


def _inside(pointer: str, prefix: str) -> tuple[int, str]:
    """Return the item that a pointer points into, and the pointer inside it; -1 if it points into none."""
    index, slash, inner = pointer.removeprefix(prefix)[1:].partition("/")
    return (int(index), slash + inner) if pointer.startswith(f"{prefix}/") and index.isdigit() else (-1, "")


def _json(text: str, source: str) -> list[YamlDocument] | None:
    """Return the documents of a JSON text; None if it is not JSON. Each document counts as one line."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    faults = FieldErrors()
    reader, at, found = decoder(faults), 0, []
    try:
        while at < len(text):
            start = at + len(text[at:]) - len(text[at:].lstrip())
            if start == len(text):
                break
            tree, at = reader.raw_decode(text, start)
            line = text.count("\n", 0, start) + 1
            found.extend(_parted(source, tree, {"": line}, faults.found))
    except (ValueError, RecursionError):
        return None
    return found


def _text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _dumper() -> Any:
    """Return a dumper that writes no aliases, and text of several lines as a block."""
    made = type("Dumper", (yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper,), {})
    made.ignore_aliases = lambda _self, _data: True  # type: ignore[attr-defined]
    made.add_representer(str, _text)  # type: ignore[attr-defined]
    return made


_DUMPER = _dumper()
_PARTS = ("apiVersion", "kind", "metadata", "spec", "status")
_META = ("name", "tenant", "labels", "annotations")


def dump_documents(trees: Iterable[Any]) -> str:
    """Return the trees as YAML, with `---` between; kind and name come before the spec."""
    return "---\n".join(
        yaml.dump(_ordered(tree), Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=110) for tree in trees
    )


def _ordered(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    ordered = {part: tree[part] for part in _PARTS if part in tree}
    ordered.update((part, item) for part, item in tree.items() if part not in ordered)
    meta = ordered.get("metadata")
    if isinstance(meta, dict):
        first = {name: meta[name] for name in _META if name in meta}
        ordered["metadata"] = {**first, **meta}
    return ordered
