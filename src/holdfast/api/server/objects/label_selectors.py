"""Label selectors, as users write them: `app=web,tier!=back,canary,!old`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from holdfast.api.problems import problem
from holdfast.api.server.request import ApiError

_NO_LABEL, _NO_VALUE = re.compile(r"[\x00-\x20\x7f!=]"), re.compile(r"[\x00-\x1f\x7f=]")

TERMS_MAX = 32
TEXT_MAX = 4_096


class LabelTerm(Struct, frozen=True):
    """One term: a label exists or not, with a value or any."""

    key: str
    value: str | None
    wanted: bool

    def meets(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels match. A missing label differs from every value."""
        found = self.key in labels if self.value is None else labels.get(self.key) == self.value
        return found is self.wanted


def parse_selector(text: str) -> tuple[LabelTerm, ...]:
    """Return the terms, all of which must match; an empty selector has none and matches everything."""
    if len(text) > TEXT_MAX or text.count(",") >= TERMS_MAX:
        raise ApiError(problem("unreadable", f"a selector has at most {TERMS_MAX} terms and {TEXT_MAX} characters"))
    return tuple(_term(part.strip(" ")) for part in text.split(",")) if text.strip(" ") else ()


def _term(part: str) -> LabelTerm:
    for mark, wanted in (("!=", False), ("==", True), ("=", True)):
        if mark in part:
            key, _, value = part.partition(mark)
            return _checked(LabelTerm(key.strip(" "), value.strip(" "), wanted), part)
    if part.startswith("!"):
        return _checked(LabelTerm(part[1:].strip(" "), None, False), part)
    return _checked(LabelTerm(part, None, True), part)


def _checked(term: LabelTerm, part: str) -> LabelTerm:
    if not term.key or _NO_LABEL.search(term.key) or _NO_VALUE.search(term.value or ""):
        raise ApiError(problem("unreadable", f"{part!r} is not a term of a selector: key=value, key!=value, key, !key"))
    return term


def matches_selector(terms: tuple[LabelTerm, ...], labels: Mapping[str, str]) -> bool:
    """Whether labels match all terms of a selector."""
    return all(term.meets(labels) for term in terms)
