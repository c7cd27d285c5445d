"""`holdfast policy`, and policies in `apply` and `get`."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from tests.support.api.command_line import CommandLine, same_as_golden

POLICY = """\
apiVersion: holdfast/v1
kind: SchedulerPolicy
metadata:
  name: packed
spec:
  strategy: pack
  scores:
    packing: 5
  freshness:
    critical: 2s
"""


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_794_762_000.0)


def hold(line: CommandLine, revision: str, name: str, stage: str, *valid: dict[str, str]) -> None:
    """Let there be a revision, found by it and, if it is the newest so far, by its name."""
    meta = {"name": name} | ({"uid": revision, "revision": revision} if revision != "0.0" else {})
    status = {"stage": stage, "author": "person/ops", "at": "2026-11-15T15:00:00.000Z", "valid": list(valid)}
    found = {"apiVersion": "holdfast/v1", "kind": "SchedulerPolicy", "metadata": meta, "spec": {"strategy": "pack"}}
    whole: dict[str, Any] = {**found, "status": status}
    line.platform.objects["policies", revision] = whole
    line.platform.answers["GET", f"/v1/policies/{name}"] = whole


@pytest.fixture
def known(holdfast: CommandLine) -> CommandLine:
    """A platform with three revisions of a policy, one of them rolled back, and the built-in one."""
    hold(holdfast, "0.0", "built-in", "active")
    hold(holdfast, "9.0", "packed", "active", {"region": "us"})
    hold(holdfast, "41.3", "packed", "rolled-back")
    hold(holdfast, "102.0", "packed", "canary", {"region": "eu"}, {"region": "us", "tenant": "shop"})
    for tag in ("activate-policy", "roll-back-policy"):
        answer = {"command": tag, "revision": "110.0", "repeated": False}
        holdfast.platform.answers["POST", f"/v1/commands/{tag}"] = answer
    items = [found for (kind, _), found in holdfast.platform.objects.items() if kind == "policies"]
    holdfast.platform.answers["GET", "/v1/policies"] = {
        "kind": "List",
        "items": items,
        "metadata": {"token": "l:1:1:a"},
    }
    return holdfast


def sent(line: CommandLine) -> Any:
    return msgspec.json.decode(line.platform.asked[-1].body)


def test_without_a_verb_the_verbs_are_listed(holdfast: CommandLine) -> None:
    same_as_golden("policy_help", holdfast("policy"))


def test_the_history_has_every_revision_newest_first(known: CommandLine) -> None:
    same_as_golden("policy_history", known("policy", "history"))
    assert "built-in" not in known("policy", "history", "packed").stdout
    assert "there is no policy other" in known("policy", "history", "other").stderr


def test_policies_are_listed_with_their_revisions(known: CommandLine) -> None:
    same_as_golden("get_policies", known("get", "policies"))


def test_a_revision_is_made_valid_in_a_region_for_all_or_for_a_tenant(known: CommandLine) -> None:
    done = known("policy", "activate", "9.0", "--region", "eu")
    assert (done.exit_code, done.stdout) == (0, "policy/packed 9.0 is valid in eu\n")
    assert sent(known) == {"revision": "9.0", "region": "eu", "scope": "", "stage": "active"}
    known("policy", "activate", "packed", "--region", "eu", "--tenant", "shop", "--stage", "canary")
    assert sent(known) == {"revision": "102.0", "region": "eu", "scope": "shop", "stage": "canary"}
    known("policy", "activate", "built-in", "--region", "eu")
    assert sent(known)["revision"] == "0.0"


def test_nothing_is_activated_without_a_region(known: CommandLine) -> None:
    same_as_golden("policy_activate_nowhere", known("policy", "activate", "9.0"))


def test_a_rollback_goes_to_what_was_in_force_before(known: CommandLine) -> None:
    same_as_golden("policy_rollback", known("policy", "rollback", "102.0", "--reason", "too full"))
    assert sent(known) == {"revision": "102.0", "successor": "9.0", "reason": "too full"}
    known("policy", "rollback", "9.0", "--reason", "too full")
    assert sent(known)["successor"] == "0.0"
    known("policy", "rollback", "9.0", "--to", "102.0", "--reason", "too full")
    assert sent(known)["successor"] == "102.0"


def test_a_rollback_names_its_revision(known: CommandLine) -> None:
    done = known("policy", "rollback", "packed", "--reason", "too full")
    assert (done.exit_code, known.platform.asked) == (2, [])
    assert "packed: a revision is required" in done.stderr


def test_a_rollback_says_why(known: CommandLine) -> None:
    done = known("policy", "rollback", "102.0")
    assert (done.exit_code, known.platform.asked) == (2, [])
    assert "--reason TEXT" in done.stderr


def test_applying_a_policy_says_which_revision_it_became_and_how_to_activate_it(holdfast: CommandLine) -> None:
    file = holdfast.write("policy.yaml", POLICY)
    same_as_golden("apply_policy", holdfast("apply", "-f", file))
    assert holdfast("apply", "-f", file).stdout == "schedulerpolicy/packed unchanged\n"


def test_a_policy_that_cannot_be_meant_is_refused_with_its_line_and_field(holdfast: CommandLine) -> None:
    file = holdfast.write("policy.yaml", POLICY.replace("packing: 5", "packng: 5"))
    same_as_golden("apply_policy_unknown_score", holdfast("apply", "-f", file))
    file = holdfast.write("policy.yaml", POLICY.replace("name: packed", "name: 41.3"))
    assert "metadata.name" in holdfast("apply", "-f", file).stderr
