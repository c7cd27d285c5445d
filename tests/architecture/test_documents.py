"""The documents exist and have their shape, and no file names the machine it was written on."""

import re
from collections.abc import Iterator

import pytest

from tests.architecture.checkout import ROOT, Finding, name_of, none_of, project_files

DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/index.md",
    "docs/start/quickstart.md",
    "docs/use/workloads.md",
    "docs/operate/servers.md",
    "docs/contribute/layout.md",
    "docs/design/overview.md",
    "docs/evidence/benchmarks.md",
    "docs/reference/README.md",
]
RECORDS = ROOT / "docs" / "design" / "decisions"
RECORD_NAME = re.compile(r"\d{4}-[a-z0-9]+(-[a-z0-9]+)*\.md")
RECORD_HEADINGS = ["Context", "Decision", "Consequences", "What would change our mind"]

# Put together from pieces, so that this file does not find itself.
FOLDERS = ["home", "root", "work", "Users"]
HOSTS = ["".join(pieces) for pieces in [("pypi", ".org"), ("python", "hosted"), ("npm", "js"), ("yarn", "pkg")]]
LOCAL_PATH = re.compile(r"(?<![\w.~-])/(?:" + "|".join(FOLDERS) + r")/\w")
REGISTRY = re.compile("|".join(re.escape(host) for host in HOSTS), re.IGNORECASE)


def traces_of_a_machine(text: str, file: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), start=1):
        if LOCAL_PATH.search(line):
            yield Finding(file, number, "names a folder of one machine; use a path relative to the project")
        if REGISTRY.search(line):
            yield Finding(file, number, "names a package registry; installers bring their own setting")


def missing_headings(text: str, file: str) -> Iterator[Finding]:
    present = {match.strip() for match in re.findall(r"^##\s+(.+)$", text, re.MULTILINE)}
    for heading in RECORD_HEADINGS:
        if heading not in present:
            yield Finding(file, 1, f"the record has no heading `## {heading}`")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_document_exists(document: str) -> None:
    path = ROOT / document
    assert path.is_file(), f"{document} is missing"
    assert path.read_text(encoding="utf-8").strip(), f"{document} is empty"


def test_decision_records_are_numbered_one_by_one() -> None:
    names = sorted(path.name for path in RECORDS.iterdir())
    assert names, "there is no decision record"
    assert [name for name in names if not RECORD_NAME.fullmatch(name)] == []
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


def test_every_decision_record_has_the_four_headings() -> None:
    records = sorted(RECORDS.glob("*.md"))
    assert records, "there is no decision record"
    none_of(f for path in records for f in missing_headings(path.read_text(encoding="utf-8"), name_of(path)))


def test_no_file_names_a_machine_or_a_registry() -> None:
    files = project_files()
    assert files, "no files found: is the path right?"
    none_of(
        finding
        for path in files
        for finding in traces_of_a_machine(path.read_text(encoding="utf-8", errors="ignore"), name_of(path))
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_path_of_one_machine_is_found(folder: str) -> None:
    text = f"first line\nsee /{folder}/someone/project\n"
    assert [str(f).split(":")[:2] for f in traces_of_a_machine(text, "a.md")] == [["a.md", "2"]]


@pytest.mark.parametrize("host", HOSTS)
def test_a_registry_is_found(host: str) -> None:
    assert len(list(traces_of_a_machine(f"--index-url https://{host}/simple", "a.txt"))) == 1


@pytest.mark.parametrize("text", ["src/work/queue.py", "~/work/notes", "docs/home/index.md", "homework/x"])
def test_a_relative_path_is_left_alone(text: str) -> None:
    assert list(traces_of_a_machine(text, "a.md")) == []


def test_a_record_without_a_heading_is_found() -> None:
    record = "# 7. A title\n\n## Context\n\n## Decision\n\n## What would change our mind\n"
    assert [f.why for f in missing_headings(record, "7.md")] == ["the record has no heading `## Consequences`"]
