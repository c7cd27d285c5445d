"""`docs/security.md` says of each party what it cannot do, and names the test that shows it: each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
#: Who may be bad.
PARTIES = (
    "Somebody without a name",
    "The network",
    "A store reader",
    "A store writer",
    "An operator",
    "A region",
    "A server of the platform",
    "A scheduler",
    "An agent",
    "A tenant, through the API",
    "A tenant, from inside its process",
)


def sections() -> dict[str, str]:
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


def test_every_row_of_every_party_names_tests_that_exist() -> None:
    known: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        known |= set(re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")))
    found = sections()
    for party in PARTIES:
        rows = [line for line in found[party].splitlines() if line.startswith("| ")][1:]
        assert rows, party
        for row in rows:
            named = re.findall(r"`(test_\w+)`", row.split("|")[3])
            assert named, row
            assert sorted(set(named) - known) == [], row


def test_every_test_that_the_page_marks_as_soak_is_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    marked = set(re.findall(r"soak: `(test_\w+)`", text))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    soaked = "\n".join(source for source in sources if "pytest.mark.soak" in source)
    assert marked
    assert [name for name in sorted(marked) if f"def {name}" not in soaked] == []
