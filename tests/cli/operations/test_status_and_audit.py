"""`holdfast status`, `audit`, `token`, `can-i`, `whoami` and `version`: questions to the server itself."""

from __future__ import annotations

import hashlib
import re
import time
from typing import Any

import msgspec
import pytest

import holdfast as package
from holdfast.cli.output import printer
from holdfast.cli.setup.version import skew
from holdfast.host.ports.transport import NoAnswer, first_value
from tests.support.api.command_line import CommandLine, problem, same_as_golden

STATUS: dict[str, Any] = {
    "server": "http://p1:7400",
    "ledger": "platform",
    "role": "leading",
    "leader": "http://p1:7400",
    "term": 7,
    "ageMs": 120,
    "version": package.__version__,
    "conditions": [{"type": "Writable", "status": "true", "reason": "as-desired", "message": ""}],
    "degraded": [],
    "overrides": [],
    "regions": [
        {"name": "eu", "health": "healthy", "lastContactMsAgo": 800, "joined": True},
        {"name": "us", "health": "healthy", "lastContactMsAgo": 95, "joined": True},
    ],
    "lanes": [{"lane": "people", "waiting": 0}, {"lane": "agents", "waiting": 12}],
}


@pytest.fixture(autouse=True)
def at_five(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is five o'clock."""
    monkeypatch.setattr(time, "time", lambda: 1_794_762_000.0)


def stamp(minutes: int) -> str:
    return printer.instant_in(minutes * 60_000)


# status


def test_a_quiet_status_says_that_nothing_is_degraded(holdfast: CommandLine) -> None:
    holdfast.platform.answers["GET", "/v1/status"] = STATUS
    same_as_golden("status_quiet", holdfast("status"))


def test_a_server_that_does_not_report_a_last_contact_is_not_shown_as_degraded(holdfast: CommandLine) -> None:
    regions = [{"name": "eu", "health": "healthy", "heardMsAgo": 800, "joined": True}]
    holdfast.platform.answers["GET", "/v1/status"] = {**STATUS, "regions": regions}
    shown = holdfast("status").stdout
    assert "never" not in shown
    assert "stale" not in shown
    assert "Degraded\n  nothing\n" in shown
    assert any(line.split() == ["eu", "healthy", "-"] for line in shown.splitlines())


def test_a_degraded_status_names_what_who_and_until_when(holdfast: CommandLine) -> None:
    full = {"type": "Writable", "status": "false", "reason": "store-full", "message": "no room"}
    override = {"action": "pause-scheduling", "region": "eu", "target": "", "reason": "flaky", "ends": stamp(30)}
    found = {**STATUS, "leader": "", "ageMs": None, "conditions": [full], "degraded": ["no known leader"]}
    found["overrides"] = [{"spec": override, "status": {"owner": "person/oncall"}}]
    found["regions"] = [
        {"name": "eu", "health": "healthy", "lastContactMsAgo": 95_000},
        {"name": "us", "health": "suspect", "lastContactMsAgo": None},
    ]
    holdfast.platform.answers["GET", "/v1/status"] = found
    same_as_golden("status_degraded", holdfast("status"))


def test_a_status_warns_of_what_is_not_safe_though_it_works(holdfast: CommandLine) -> None:
    said = "region eu: tenants share a user on 2 nodes: eu-1, eu-2"
    holdfast.platform.answers["GET", "/v1/status"] = {**STATUS, "warnings": [said]}
    shown = holdfast("status").stdout.splitlines()
    assert shown[shown.index("Warnings") + 1] == f"  {said}"


def test_a_status_as_json_is_what_the_server_said(holdfast: CommandLine) -> None:
    holdfast.platform.answers["GET", "/v1/status"] = STATUS
    assert msgspec.json.decode(holdfast("status", "-o", "json").stdout) == STATUS


def test_a_region_is_asked_through_the_platform(holdfast: CommandLine) -> None:
    found = {**STATUS, "ledger": "region/eu", "platform": {"lastContactMsAgo": 40_000, "degradedReason": ""}}
    del found["regions"], found["overrides"]
    holdfast.platform.answers["GET", "/v1/in/eu/status"] = found
    same_as_golden("status_region", holdfast("status", "--region", "eu"))


# audit


def test_the_audit_says_who_did_what_when_and_how_it_ended(holdfast: CommandLine) -> None:
    put = {"workload": {"kind": "Workload", "metadata": {"name": "web", "tenant": "shop"}}}
    items = [
        {"at": stamp(-1), "actor": "person/oncall", "command": "declare-lost", "body": {"region": "eu"},
         "revision": "44.0", "outcome": "accepted"},
        {"at": stamp(-9), "actor": "tenant/shop", "command": "put-workload", "body": put, "revision": "",
         "outcome": "over-quota"},
    ]  # fmt: skip
    holdfast.platform.answers["GET", "/v1/audit"] = {"items": items}
    same_as_golden("audit", holdfast("audit", "--since", "1h", "--actor", "person/oncall", "--command", "declare-lost"))
    query = holdfast.platform.asked[-1].query
    assert first_value(query, "since") == stamp(-60)
    assert (first_value(query, "actor"), first_value(query, "command")) == ("person/oncall", "declare-lost")


def test_the_audit_says_of_a_denial_whose_it_was_and_how_often_it_came(holdfast: CommandLine) -> None:
    denial = {"at": stamp(-1), "actor": "person/risk", "command": "GET /v1/workloads", "outcome": "wrong-scope",
              "revision": "44.0", "tenant": "bank", "count": 3}  # fmt: skip
    holdfast.platform.answers["GET", "/v1/audit"] = {"items": [denial, {**denial, "tenant": "", "count": 1}]}
    lines = holdfast("audit").stdout.splitlines()
    assert lines[1].endswith("wrong-scope  tenant bank, 3 times")
    assert lines[2].endswith("wrong-scope  -")


@pytest.mark.parametrize("since", ["yesterday", "1 hour", "3x"])
def test_since_is_a_time_or_how_long_ago(since: str, holdfast: CommandLine) -> None:
    assert holdfast("audit", "--since", since).exit_code == 2


# token


def test_a_token_is_printed_once_and_only_its_hash_is_sent(holdfast: CommandLine) -> None:
    done = holdfast("token", "create", "--principal", "person/oncall", "--ttl", "30d", "--name", "oncall-1")
    assert done.exit_code == 0, done.stderr
    token = re.fullmatch(r"hf_(oncall-1)_([A-Za-z0-9_-]{43})\n", done.stdout)
    assert token is not None
    spec = holdfast.platform.objects["tokens", "oncall-1"]["spec"]
    sent = msgspec.json.decode(holdfast.platform.asked[-1].body)["spec"]
    assert sent["hash"] == hashlib.sha256(token[2].encode()).hexdigest()
    assert (spec["principal"], spec["expires"]) == ("person/oncall", stamp(30 * 24 * 60))
    assert not any(token[2].encode() in request.body for request in holdfast.platform.asked)
    assert first_value(holdfast.platform.asked[-1].headers, "if-none-match") == "*"


def test_a_token_has_a_name_without_underscores_if_none_is_given(holdfast: CommandLine) -> None:
    done = holdfast("token", "create", "--principal", "agent/n_1", "--ttl", "1h")
    assert re.fullmatch(r"hf_n-1-[0-9a-f]{8}_[A-Za-z0-9_-]{43}\n", done.stdout)
    assert holdfast("token", "create", "--principal", "a/b", "--ttl", "1h", "--name", "x_y").exit_code == 2


@pytest.mark.parametrize("principal", ["agent/*", "scheduler/*"])
def test_a_token_for_every_machine_of_a_kind_is_asked_for_plainly(principal: str, holdfast: CommandLine) -> None:
    words = ("token", "create", "--principal", principal, "--ttl", "1h", "--name", "all")
    refused = holdfast(*words)
    assert refused.exit_code == 2
    assert "--any-node" in refused.stderr
    assert not holdfast.platform.asked
    assert holdfast(*words, "--any-node").exit_code == 0
    assert msgspec.json.decode(holdfast.platform.asked[-1].body)["spec"]["any"] is True


def test_a_token_for_one_machine_does_not_say_that_it_is_for_any(holdfast: CommandLine) -> None:
    assert holdfast("token", "create", "--principal", "agent/n1", "--ttl", "1h", "--name", "one").exit_code == 0
    assert "any" not in msgspec.json.decode(holdfast.platform.asked[-1].body)["spec"]


def test_a_token_that_is_replaced_stays_good_for_a_while(holdfast: CommandLine) -> None:
    old = {"principal": "person/oncall", "hash": "abc", "expires": stamp(10_000)}
    holdfast.platform.hold("Token", "old", old)
    done = holdfast("token", "create", "--replaces", "old", "--ttl", "30d")
    assert done.exit_code == 0, done.stderr
    assert holdfast.platform.objects["tokens", "old"]["spec"]["expires"] == stamp(60)
    assert "holdfast token revoke old" in done.stderr
    assert done.stdout.startswith("hf_oncall-")


def test_a_token_whose_fate_is_unknown_is_not_printed(holdfast: CommandLine) -> None:
    holdfast.platform.answers["PUT", "/v1/tokens/one"] = NoAnswer("broken")
    done = holdfast("token", "create", "--principal", "p/q", "--ttl", "1h", "--name", "one", "--timeout", "1s")
    assert (done.exit_code, done.stdout) == (5, "")


@pytest.mark.parametrize("words", [["--ttl", "1h"], ["--principal", "p/q"], ["--principal", "p/q", "--ttl", "soon"]])
def test_a_token_needs_somebody_and_an_end(words: list[str], holdfast: CommandLine) -> None:
    done = holdfast("token", "create", *words)
    assert (done.exit_code, done.stdout, holdfast.platform.asked) == (2, "", [])


def test_tokens_are_listed_and_revoked(holdfast: CommandLine) -> None:
    for name, minutes in (("fresh", 600), ("stale", -600)):
        spec = {"principal": "person/oncall", "hash": "abc", "expires": stamp(minutes), "revoked": False}
        holdfast.platform.hold("Token", name, spec)
    same_as_golden("token_revoked", holdfast("token", "revoke", "fresh"))
    same_as_golden("token_list", holdfast("token", "list"))
    assert holdfast("token", "revoke", "fresh").stdout == "token/fresh was revoked before\n"
    assert holdfast("token", "revoke", "none").exit_code == 1


# can-i and whoami


@pytest.mark.parametrize(("allowed", "code", "said"), [(True, 0, "yes\n"), (False, 1, "no\n")])
def test_can_i_answers_with_a_word_and_an_exit_code(allowed: bool, code: int, said: str, holdfast: CommandLine) -> None:
    holdfast.platform.answers["POST", "/v1/can-i"] = {"allowed": allowed, "why": "because"}
    done = holdfast("can-i", "put-workload", "--tenant", "shop")
    assert (done.exit_code, done.stdout, done.stderr) == (code, said, "because\n")
    asked = msgspec.json.decode(holdfast.platform.asked[-1].body)
    assert asked == {"command": "put-workload", "tenant": "shop"}


def test_a_question_that_is_not_understood_is_not_answered_with_no(holdfast: CommandLine) -> None:
    holdfast.platform.answers["POST", "/v1/can-i"] = problem(400, "unreadable", "no command 'nonsense'")
    done = holdfast("can-i", "nonsense")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "; permissions: read, write, " in done.stderr


def test_a_right_is_asked_for_as_one(holdfast: CommandLine) -> None:
    holdfast.platform.answers["POST", "/v1/can-i"] = {"allowed": True}
    holdfast("can-i", "break-glass", "--node", "n1", "--region", "eu")
    asked = msgspec.json.decode(holdfast.platform.asked[-1].body)
    assert asked == {"right": "break-glass", "node": "n1", "region": "eu"}


def test_a_command_of_regions_is_asked_of_a_region(holdfast: CommandLine) -> None:
    holdfast.platform.answers["POST", "/v1/in/eu/can-i"] = {"allowed": True}
    assert holdfast("can-i", "administer-node", "--region", "eu").stdout == "yes\n"
    done = holdfast("can-i", "administer-node")
    assert done.exit_code == 2
    assert "--region NAME" in done.stderr


def test_whoami_says_who_what_and_where(holdfast: CommandLine) -> None:
    found = {"principal": "person/oncall", "rights": ["read", "operate"], "scope": {"tenant": "", "region": "eu"}}
    holdfast.platform.answers["GET", "/v1/whoami"] = {**found, "expires": stamp(120)}
    same_as_golden("whoami", holdfast("whoami"))


def test_whoami_and_version_ask_the_region_that_is_named(holdfast: CommandLine) -> None:
    holdfast.platform.answers["GET", "/v1/in/eu/whoami"] = {"principal": "person/oncall"}
    assert "person/oncall" in holdfast("whoami", "--region", "eu").stdout
    holdfast.platform.answers["GET", "/v1/in/eu/status"] = {**STATUS, "version": "0.1.9"}
    assert "server  0.1.9" in holdfast("version", "-r", "eu").stdout


@pytest.mark.parametrize(
    "words",
    [["audit", "--tenant", "shop"], ["--region", "eu", "token", "list"], ["token", "revoke", "a", "-t", "shop"]],
)
def test_an_option_that_would_be_passed_over_is_refused(words: list[str], holdfast: CommandLine) -> None:
    done = holdfast(*words)
    assert (done.exit_code, holdfast.platform.asked) == (2, [])
    assert "has no effect on this command" in done.stderr


def test_a_tenant_of_the_context_does_not_keep_from_the_audit(
    holdfast: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TENANT", "shop")
    holdfast.platform.answers["GET", "/v1/audit"] = {"items": []}
    assert holdfast("audit").exit_code == 0


def test_whoami_without_a_token_ends_with_3(holdfast: CommandLine) -> None:
    holdfast.platform.answers["GET", "/v1/whoami"] = problem(401, "unauthenticated", "there is no token")
    assert holdfast("whoami").exit_code == 3


# version


def test_the_version_of_the_client_alone_asks_nobody(holdfast: CommandLine) -> None:
    done = holdfast("version", "--client")
    assert (done.stdout, holdfast.platform.asked) == (f"client  {package.__version__}\n", [])


def test_versions_too_far_apart_are_warned_of(holdfast: CommandLine) -> None:
    holdfast.platform.answers["GET", "/v1/status"] = {**STATUS, "version": "9.9.0"}
    done = holdfast("version")
    assert "server  9.9.0" in done.stdout
    assert "more than one minor version apart" in done.stderr


def test_no_server_is_no_failure_of_version(holdfast: CommandLine) -> None:
    holdfast.platform.unreachable = True
    done = holdfast("version")
    assert (done.exit_code, done.stdout) == (0, f"client  {package.__version__}\n")
    assert "no server answered" in done.stderr


@pytest.mark.parametrize(
    ("ours", "theirs", "warns"),
    [("1.2.0", "1.2.9", False), ("1.2.0", "1.3.0", False), ("1.2.0", "1.4.0", True), ("1.2.0", "2.2.0", True),
     ("1.2.0", "", False), ("1.2.0", "dev", True)],
)  # fmt: skip
def test_one_minor_version_apart_is_fine(ours: str, theirs: str, warns: bool) -> None:
    assert bool(skew(ours, theirs)) is warns
