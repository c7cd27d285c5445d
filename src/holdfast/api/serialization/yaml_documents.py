"""Many documents in one text, YAML or JSON, each with the lines it came from; and back to text.

Only plain values are read: maps with text as keys, lists, text, numbers, true, false and null. Times stay text, and so
does everything that older YAML takes for something else (`no`, `0777`, `12:30`). Aliases are expanded up to a bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml  # type: ignore[import-untyped]

from holdfast.api.serialization.field_errors import FieldError, FieldErrors, format_error
from holdfast.api.serialization.strict_json import decoder
from holdfast.api.serialization.yaml_parser import UnreadableText, parse_trees

#: A text of more characters is not written by people.
TEXT_MAX = 4_000_000

_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class YamlDocument:
    """One document of a text: its tree, what was already wrong with the text, and where everything stood."""

    def __init__(self, source: str, tree: Any, lines: dict[str, int], faults: Iterable[FieldError]) -> None:
        self.source, self.tree, self.faults = source, tree, tuple(faults)
        self._lines = lines

    def line_of(self, pointer: str) -> int:
        """The line of what the pointer points to or, where that is missing, of what it is missing in."""
        while pointer not in self._lines and pointer:
            pointer = pointer.rpartition("/")[0]
        return self._lines.get(pointer, 1)

    def told(self, fault: FieldError) -> str:
        """A fault as people read it: `file:line: kind/name: spec.replicas: message (hint)`."""
        return f"{self.source}:{self.line_of(fault.pointer)}: {self.title}: {format_error(fault)}"

    @property
    def title(self) -> str:
        """What the document is about, as far as it says so."""
        tree = self.tree if isinstance(self.tree, dict) else {}
        meta = tree.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        kind = tree.get("kind")
        known = [part[:128] for part in (kind, name) if isinstance(part, str) and part]
        return "/".join(known) or "document"


def load_documents(text: str, source: str) -> list[YamlDocument]:
    """Every document in the text, empty ones left out. A list of documents, or one of kind List, is its items.

    What is wrong inside a document (a key that comes twice) is in its `faults`; a text that cannot be taken apart at
    all is `UnreadableText`.
    """
    if len(text) > TEXT_MAX:
        raise UnreadableText(source, 1, f"{len(text)} characters; a text has at most {TEXT_MAX}")
    try:
        return [one for tree in parse_trees(yaml.parse(text, Loader=_LOADER), source) for one in _parted(source, *tree)]
    except yaml.MarkedYAMLError as error:
        # A pair of escapes for one character is JSON and not YAML.
        parsed = _json(text, source)
        if parsed is not None:
            return parsed
        mark = error.problem_mark or error.context_mark
        raise UnreadableText(source, mark.line + 1 if mark else 1, str(error.problem or error.context)) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise UnreadableText(source, 1, " ".join(str(error).split())[:200]) from None


def _parted(source: str, tree: Any, lines: dict[str, int], faults: list[FieldError]) -> list[YamlDocument]:
    """The document, or its items where it is only a list of them."""
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
    """Which item of a list a pointer points into, and where in it; -1: into none."""
    index, slash, inner = pointer.removeprefix(prefix)[1:].partition("/")
    return (int(index), slash + inner) if pointer.startswith(f"{prefix}/") and index.isdigit() else (-1, "")


def _json(text: str, source: str) -> list[YamlDocument] | None:
    """The documents of a text that is JSON, one after the other; None when it is not. All of it counts as one line."""
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
    """Writes every value where it stands, and text of several lines as it reads."""
    made = type("Dumper", (yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper,), {})
    made.ignore_aliases = lambda _self, _data: True  # type: ignore[attr-defined]
    made.add_representer(str, _text)  # type: ignore[attr-defined]
    return made


_DUMPER = _dumper()
_PARTS = ("apiVersion", "kind", "metadata", "spec", "status")
_META = ("name", "tenant", "labels", "annotations")


def dump_documents(trees: Iterable[Any]) -> str:
    """The trees as YAML, with `---` between, in the order in which people read: what it is, its name, its spec."""
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
