"""Links of Markdown pages: what each points to, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.architecture.checkout import ROOT, Finding, name_of

#: A link that points into this checkout: neither to another site nor to a mail address.
_LINK = re.compile(r"(?<!\\)\]\((?![a-z][a-z+.-]*:)([^()\s]+)\)")
_FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


class Link(NamedTuple):
    """Where it stands, and where it points: a file or folder, and a heading of it, or none."""

    page: Path
    line: int
    target: Path
    anchor: str


def links_of(page: Path) -> Iterator[Link]:
    """All relative links of a page; those within code are none."""
    text = _blanked(_CODE, _blanked(_FENCED, page.read_text(encoding="utf-8")))
    for found in _LINK.finditer(text):
        path, _, anchor = found.group(1).partition("#")
        target = (page.parent / path).resolve() if path else page
        yield Link(page, text.count("\n", 0, found.start()) + 1, target, anchor)


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """The text with what matches taken out, its lines kept."""
    return pattern.sub(lambda found: "\n" * found.group(0).count("\n"), text)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that a page's headings have, as they are made for readers: a second one of a name counts on."""
    text = _blanked(_FENCED, page.read_text(encoding="utf-8"))
    seen: dict[str, int] = {}
    found = set()
    for heading in _HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return frozenset(found)


def broken(page: Path) -> Iterator[Finding]:
    """Links of a page to what is not there, is not in this checkout, or has no such heading."""
    for link in links_of(page):
        shown = name_of(page) if page.is_relative_to(ROOT) else page.name
        if not link.target.exists():
            yield Finding(shown, link.line, f"there is no {link.target.name}")
        elif link.target.suffix == ".md" and link.anchor and link.anchor not in anchors(link.target):
            yield Finding(shown, link.line, f"{link.target.name} has no heading #{link.anchor}")


def reachable(start: Path) -> set[Path]:
    """The pages that links lead to from one, itself among them. A link to a folder leads to the pages in it."""
    found, left = {start}, [start]
    while left:
        for link in links_of(left.pop()):
            folder = sorted(link.target.glob("*.md")) if link.target.is_dir() else []
            for page in [one for one in (link.target, *folder) if one.suffix == ".md" and one.is_file()]:
                if page not in found:
                    found.add(page)
                    left.append(page)
    return found
