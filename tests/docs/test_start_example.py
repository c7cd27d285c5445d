"""The quickstart, the concepts, and the pages for users of other schedulers, on the platform of the example.

A command within a line of a page is run as it stands. Of one that would change more than it should, or that names no
object, the name and the flags are compared with its help.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.processes.page_commands import page
from tests.support.processes.page_reader import Reader, reading

PEERS = ("coming-from-kubernetes", "coming-from-nomad", "coming-from-slurm")
PAGES = ("quickstart", "tutorial", "concepts", *PEERS)
CLEAN_UP = "\n## Clean up\n"
WITHIN_A_LINE = re.compile(r"`(holdfast [a-z][^`\n]*)`")
#: Commands of which only the name and the flags are compared.
NOT_RUN = re.compile(
    r"holdfast (apply|delete|diff|validate|dev|policy activate)|holdfast (scale|restart) workload( -|$)|holdfast \w+$"
)
WORKLOAD = re.compile(r"^```yaml\n(apiVersion: holdfast/v1\n.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def example() -> Iterator[Reader]:
    """Who reads these pages one after the other; the quickstart starts the platform."""
    with reading() as reader:
        yield reader


def test_the_quickstart_shows_what_happens_when_things_are_killed(example: Reader) -> None:
    example.follow(page("start/quickstart.md").split(CLEAN_UP)[0])


def test_each_concept_is_shown_by_its_command(example: Reader) -> None:
    text = page("start/concepts.md")
    assert text.count("\n*Guarantee*") == text.count("*See it*") == text.count("```console") == 12
    example.follow(text)


def test_commands_within_lines_work(example: Reader) -> None:
    found = dict.fromkeys(one for name in PAGES for one in WITHIN_A_LINE.findall(page(f"start/{name}.md")))
    assert len(found) >= 30
    for command in found:
        if NOT_RUN.match(command):
            words = command.split()
            flags = [word.partition("=")[0] for word in words if word.startswith("-")]
            names = words[: 3 if words[1] == "policy" else 2]
            code, printed = example.type(" ".join([*names, "--help"]))
            assert code == 0, command
            assert [flag for flag in flags if not re.search(rf"{flag}\b", printed)] == [], command
        else:
            code, printed = example.type(command)
            assert code == 0, (command, printed)


@pytest.mark.parametrize("name", PEERS)
def test_what_is_translated_is_valid(name: str, example: Reader) -> None:
    (workload,) = WORKLOAD.findall(page(f"start/{name}.md"))
    (example.folder / "translated.yaml").write_text(workload, encoding="utf-8")
    assert example.type("holdfast validate -f translated.yaml").out.endswith(" valid\n")


def test_nothing_is_left_after_the_cleaning_up(example: Reader) -> None:
    share = example.folder / "share" / "holdfast" / "dev"
    assert share.exists()
    example.follow(page("start/quickstart.md").split(CLEAN_UP)[1])
    assert not share.exists()
