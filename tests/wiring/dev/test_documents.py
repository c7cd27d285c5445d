"""What a new platform is told first, and what is left alone afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.client.blocking_client import Client
from holdfast.client.errors import ProblemReport
from holdfast.client.objects import BatchItemResult, ListResult
from holdfast.core.model.objects.principals import parse_token, verify_secret
from holdfast.core.platform.limits import TOKEN_LIFE_MAX
from holdfast.wiring.config.private_files import read_or_create_token
from holdfast.wiring.dev import documents as dev_documents

NOW = datetime(2026, 11, 15, tzinfo=UTC)
ADDRESS = "https://eu.example:7400"


class FakePlatform:
    """A platform that keeps documents, and refuses those named `bad`."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], dict[str, Any]] = {}
        self.sent: list[str] = []

    def list(self, kind: str) -> ListResult:
        return ListResult(tuple(one for (known, _), one in self.kept.items() if f"{known.lower()}s" == kind), "")

    def batch(self, documents: Iterable[dict[str, Any]]) -> tuple[BatchItemResult, ...]:
        return tuple(map(self._put, documents))

    def _put(self, document: dict[str, Any]) -> BatchItemResult:
        key = document["kind"], document["metadata"]["name"]
        self.sent.append(f"{key[0]} {key[1]}")
        if key[1] == "bad":
            return BatchItemResult("refused", problem=ProblemReport(code="malformed", detail="it is bad"))
        before, self.kept[key] = self.kept.get(key), document
        return BatchItemResult("created" if before is None else "unchanged" if before == document else "configured")


@pytest.fixture
def platform() -> FakePlatform:
    return FakePlatform()


def introduced(platform: FakePlatform, file: Path, at: datetime = NOW) -> dev_documents.ApplyCounts:
    return dev_documents.apply_regions(cast("Client", platform), {"eu": dev_documents.RegionEntry(ADDRESS, file)}, at)


def name_in(file: Path) -> str:
    parts = parse_token(file.read_text(encoding="utf-8").strip())
    assert parts is not None
    return parts[0]


def test_a_region_gets_its_object_its_principal_and_the_hash_of_its_token(
    platform: FakePlatform, tmp_path: Path
) -> None:
    assert introduced(platform, tmp_path / "token") == dev_documents.ApplyCounts(created=3)
    parts = parse_token((tmp_path / "token").read_text(encoding="utf-8").strip())
    assert parts is not None
    spec = platform.kept["Token", parts[0]]["spec"]
    assert verify_secret(parts[1], spec["hash"])
    assert (spec["principal"], spec["expires"]) == ("region/eu", "2027-02-13T00:00:00.000Z")
    assert parts[1] not in str(platform.kept)


def test_a_machine_is_admitted_with_the_token_in_its_file(platform: FakePlatform, tmp_path: Path) -> None:
    def admitted() -> dev_documents.ApplyCounts:
        machine = dev_documents.MachineEntry("agent/n1", "eu", "agent-n1", tmp_path / "token")
        return dev_documents.apply_machines(cast("Client", platform), [machine], NOW)

    assert (admitted(), admitted()) == (dev_documents.ApplyCounts(created=2), dev_documents.ApplyCounts(unchanged=1))
    assert name_in(tmp_path / "token").startswith("agent-n1-")
    assert platform.kept["Principal", "agent/n1"]["spec"] == {"scope": {"region": "eu"}}
    spec = platform.kept["Token", name_in(tmp_path / "token")]["spec"]
    assert (spec["principal"], spec.get("any", False)) == ("agent/n1", False)


def test_a_token_for_all_agents_is_asked_for_plainly(platform: FakePlatform, tmp_path: Path) -> None:
    dev_documents.apply_machines(
        cast("Client", platform), [dev_documents.MachineEntry("agent/*", "", "agents", tmp_path / "token")], NOW
    )
    assert platform.kept["Token", name_in(tmp_path / "token")]["spec"]["any"] is True


def test_machines_tokens_last_as_long_as_the_ledger_takes() -> None:
    assert dev_documents.TOKEN_LEFT < dev_documents.TOKEN_LIFE
    assert dev_documents.TOKEN_LIFE.total_seconds() * 1000 < TOKEN_LIFE_MAX


def test_told_again_it_leaves_the_token_and_what_people_wrote_into_the_region(
    platform: FakePlatform, tmp_path: Path
) -> None:
    introduced(platform, tmp_path / "token")
    spec = {"jurisdiction": "eu", "address": ADDRESS}
    platform.kept["Region", "eu"]["spec"] = spec
    assert introduced(platform, tmp_path / "token") == dev_documents.ApplyCounts(unchanged=1)
    assert platform.kept["Region", "eu"]["spec"] == spec


def test_a_region_that_runs_elsewhere_now_is_reached_there_and_keeps_the_rest(
    platform: FakePlatform, tmp_path: Path
) -> None:
    introduced(platform, tmp_path / "token")
    told = {"labels": {"tier": "one"}, "revision": "7.1", "name": "eu"}
    spec = {"jurisdiction": "eu", "address": "https://old.example:7400"}
    platform.kept["Region", "eu"] = {**platform.kept["Region", "eu"], "metadata": told, "spec": spec}
    introduced(platform, tmp_path / "token")
    assert platform.kept["Region", "eu"]["spec"] == {"jurisdiction": "eu", "address": ADDRESS}
    assert platform.kept["Region", "eu"]["metadata"] == {"name": "eu", "labels": {"tier": "one"}}


def test_a_token_is_prolonged_before_it_ends(platform: FakePlatform, tmp_path: Path) -> None:
    introduced(platform, tmp_path / "token")
    name = name_in(tmp_path / "token")
    assert introduced(platform, tmp_path / "token", NOW + timedelta(days=340)).configured == 1
    assert name_in(tmp_path / "token") == name


def test_a_revoked_token_stays_revoked_and_there_is_another(platform: FakePlatform, tmp_path: Path) -> None:
    introduced(platform, tmp_path / "token")
    first_name = name_in(tmp_path / "token")
    platform.kept["Token", first_name]["spec"]["revoked"] = True
    introduced(platform, tmp_path / "token")
    assert name_in(tmp_path / "token") != first_name
    assert ("Token", name_in(tmp_path / "token")) in platform.kept
    assert platform.kept["Token", first_name]["spec"]["revoked"]


def test_what_others_refer_to_is_told_first_and_every_refusal_is_named(platform: FakePlatform) -> None:
    documents = [
        dev_documents.document(kind, name, {}) for kind, name in (("Workload", "bad"), ("Tenant", "a"), ("Odd", "bad"))
    ]
    with pytest.raises(dev_documents.ApplyRefused, match=r"Workload bad: it is bad \(malformed\)\nOdd bad"):
        dev_documents.apply_documents(cast("Client", platform), documents)
    assert platform.sent == ["Tenant a", "Workload bad", "Odd bad"]


def test_a_token_file_that_holds_no_token_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "token").touch(0o600)
    text = read_or_create_token("region-eu", tmp_path / "token")
    assert parse_token(text) is not None
    assert read_or_create_token("region-eu", tmp_path / "token") == text
