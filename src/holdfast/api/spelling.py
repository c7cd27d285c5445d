"""The known name that is nearest to a mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the word that was probably meant; empty if none is near."""
    plain = {_plain(known): known for known in reversed(tuple(words))}
    word = _plain(word[:64])
    if word in plain:
        return plain[word]
    near = difflib.get_close_matches(word, plain, 1, 0.6)
    return plain[near[0]] if near else ""


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return a hint with the nearest word; empty if none is near."""
    near = nearest(word, words)
    return f"did you mean {near}?" if near else ""


def _plain(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()
