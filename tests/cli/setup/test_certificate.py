"""`holdfast certificate`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.api.command_line import CommandLine


@pytest.fixture
def made(holdfast: CommandLine, tmp_path: Path) -> Path:
    done = holdfast("certificate", "authority", "--out", str(tmp_path / "ca"))
    assert done.exit_code == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "ca" / "authority.pem"), str(tmp_path / "ca" / "authority.key")]
    return tmp_path


def issue(holdfast: CommandLine, made: Path, *words: str) -> tuple[int, str, str]:
    done = holdfast("certificate", "issue", "--authority", str(made / "ca"), "--out", str(made), *words)
    return done.exit_code, done.stdout, done.stderr


def test_a_certificate_is_shown_with_all_that_counts(holdfast: CommandLine, made: Path) -> None:
    issue(holdfast, made, "--server", "eu-1.example,10.0.0.5", "--principal", "agent/n1", "--life", "30d")
    found = json.loads(holdfast("certificate", "show", str(made / "agent-n1.pem"), "-o", "json").stdout)
    assert (found["subject"], found["issuer"], found["principal"]) == ("agent/n1", "holdfast", "agent/n1")
    assert (found["hosts"], found["authority"]) == (["eu-1.example", "10.0.0.5"], False)
    assert found["daysLeft"] in (29, 30)
    assert found["from"] < found["until"]
    assert len(found["fingerprint"].split(":")) == 32
    text = holdfast("certificate", "show", str(made / "agent-n1.pem")).stdout
    assert f"Principal     agent/n1\nIssuer        holdfast\nFrom          {found['from']}\n" in text
    assert f"Fingerprint   {found['fingerprint']}\n" in text


def test_what_was_issued_is_printed_as_files_or_for_programs(holdfast: CommandLine, made: Path) -> None:
    code, out, told = issue(holdfast, made, "--principal", "person/oncall")
    assert (code, out) == (0, f"{made / 'person-oncall.pem'}\n{made / 'person-oncall.key'}\n")
    assert told.startswith("person/oncall: valid until ")
    _, out, _ = issue(holdfast, made, "--principal", "person/oncall", "--name", "b", "-o", "json")
    assert (json.loads(out)["key"], json.loads(out)["principal"]) == (str(made / "b.key"), "person/oncall")


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--server", "*.example"), 2, "add --wildcard"),
        (("--principal", "region/eu"), 2, "add --server-principal"),
        (("--principal", "agent/n1", "--life", "9000d"), 2, "at most 398 days"),
        (("--principal", "agent/n1", "--life", "soon"), 2, "--life: 'soon' is not"),
        ((), 2, "no host or principal is given;"),
        (("--principal", "agent/n1", "--tenant", "shop"), 2, "--tenant has no effect on this command"),
        (("--principal", "agent/n1", "--name", "../n1"), 1, "is no name for files"),
    ],
)
def test_what_is_not_signed_is_told_with_the_way_out(
    holdfast: CommandLine, made: Path, words: tuple[str, ...], code: int, why: str
) -> None:
    before = sorted(made.iterdir())
    ended, out, told = issue(holdfast, made, *words)
    assert (ended, out) == (code, "")
    assert why in told
    assert sorted(made.iterdir()) == before


def test_a_second_one_of_the_same_name_needs_force(holdfast: CommandLine, made: Path) -> None:
    issue(holdfast, made, "--principal", "agent/n1")
    code, _, told = issue(holdfast, made, "--principal", "agent/n1")
    assert (code, told) == (1, f"error: {made / 'agent-n1.pem'} is there already; --force replaces it\n")
    assert issue(holdfast, made, "--principal", "agent/n1", "--force")[0] == 0


@pytest.mark.parametrize(("file", "why"), [("ca/authority.key", "is not a certificate"), ("none", "cannot be read")])
def test_what_cannot_be_shown_is_told(holdfast: CommandLine, made: Path, file: str, why: str) -> None:
    done = holdfast("certificate", "show", str(made / file))
    assert (done.exit_code, done.stdout) == (2, "")
    assert why in done.stderr
    assert "PRIVATE" not in done.stderr
