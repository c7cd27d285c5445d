"""Every link of every document leads somewhere, and every page under docs is reached from docs/index.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT, name_of, none_of
from tests.architecture.links import anchors, broken, links_of, reachable

INDEX = ROOT / "docs" / "index.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    none_of(broken(page))


def test_every_page_is_reached_from_the_index() -> None:
    found = reachable(INDEX)
    assert [name_of(page) for page in PAGES if page not in found] == []


def test_links_are_found() -> None:
    assert sum(1 for page in DOCUMENTS for _ in links_of(page)) > 200


def test_a_link_to_nothing_and_to_no_heading_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# One Thing: `x_y`\n\n## Twice\n\n## Twice\n", encoding="utf-8")
    page = tmp_path / "a.md"
    page.write_text(
        "[a](c.md) `[no](link.md)`\n[b](b.md#one-thing-x_y)\n[b](b.md#twice-1)\n[b](b.md#thrice)\n"
        "```\n[no](link.md)\n```\n[there](https://example.com/x.md) [up](#here)\n",
        encoding="utf-8",
    )
    assert [(one.line, one.why) for one in broken(page)] == [
        (1, "there is no c.md"),
        (4, "b.md has no heading #thrice"),
        (8, "a.md has no heading #here"),
    ]
    assert anchors(tmp_path / "b.md") == {"one-thing-x_y", "twice", "twice-1"}


def test_a_page_that_no_link_leads_to_is_found(tmp_path: Path) -> None:
    for name, text in {"index": "[a](a.md)", "a": "[f](folder/)", "alone": "[a](a.md)", "folder/b": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    found = {page.relative_to(tmp_path).as_posix() for page in reachable(tmp_path / "index.md")}
    assert found == {"index.md", "a.md", "folder/b.md"}
