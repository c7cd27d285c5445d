"""`docs/evidence/correctness.md` names tests: each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_document_names_exists() -> None:
    text = (ROOT / "docs" / "evidence" / "correctness.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    sources = list((ROOT / "tests").rglob("*.py"))
    known = {path.stem for path in sources}
    for path in sources:
        known |= set(re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")))
    assert len(named) > 50
    assert sorted(named - known) == []
