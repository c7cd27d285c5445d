"""Sets of settings that are refused, each with the way out."""

from __future__ import annotations

import pytest

from holdfast.wiring.config.server_settings import ServerSettings
from holdfast.wiring.config.sources import load_settings
from holdfast.wiring.config.validation import invalid_settings, is_loopback, ledger_settings, parse_listen

REGION: dict[str, object] = {"role": "region", "region": "eu", "platform": ["http://127.0.0.1:7400"], "token_file": "t"}
PLATFORM: dict[str, object] = {"role": "platform"}


def settings(said: dict[str, object], **more: object) -> ServerSettings:
    return load_settings("", {}, {"listen": "127.0.0.1:7401", **said, **more}).settings


@pytest.mark.parametrize("said", [PLATFORM, REGION])
def test_the_least_that_must_be_said_is_enough(said: dict[str, object]) -> None:
    assert invalid_settings(settings(said)) == []


@pytest.mark.parametrize(
    ("said", "more", "why"),
    [
        ({}, {}, "no role is given"),
        (REGION, {"region": ""}, "use --region NAME"),
        (REGION, {"region": "EU"}, "is no name for a region"),
        (REGION, {"platform": []}, "use --platform URL"),
        (REGION, {"token_file": ""}, "use --token-file FILE"),
        (REGION, {"bootstrap_file": "x"}, "bootstrapFile is for a platform's server"),
        (REGION, {"platform": ["127.0.0.1:7400"]}, "is no URL"),
        (REGION, {"platform": ["http://0.0.0.0:7400"]}, "cannot be reached"),
        (REGION, {"platform": ["http://127.0.0.1:7401"]}, "is this server itself"),
        (PLATFORM, {"region": "eu"}, "are for a region's server"),
        (PLATFORM, {"platform": ["http://a:1"]}, "are for a region's server"),
        (PLATFORM, {"scheduler": "none"}, "scheduler is for a region's server"),
        (PLATFORM, {"schedulers": 2}, "schedulers is for a region's server"),
        (
            REGION,
            {"schedulers": 2, "scheduler": "none"},
            "schedulers is for a region's server with",
        ),
        (REGION, {"schedulers": 0}, "beside a leader run 1 to 16"),
        (REGION, {"schedulers": 17}, "beside a leader run 1 to 16"),
        (PLATFORM, {"operator": "tenant/a"}, "is no person"),
        (PLATFORM, {"operator": "person/"}, "is no person"),
        (PLATFORM, {"store": "postgres:x"}, "use sqlite:PATH or memory:"),
        (PLATFORM, {"store": "ledger"}, "use sqlite:PATH or memory:"),
        (PLATFORM, {"store": "sqlite:"}, "needs a folder"),
        (PLATFORM, {"store": "memory:x"}, "takes no path"),
        (PLATFORM, {"listen": "7400"}, "is no address and port"),
        (PLATFORM, {"listen": "127.0.0.1:0"}, "is no address and port"),
        (PLATFORM, {"listen": "127.0.0.1:70000"}, "is no address and port"),
        (PLATFORM, {"listen": "0.0.0.0:7400", "advertise": "http://a:1"}, "there is no TLS"),
        (PLATFORM, {"listen": "0.0.0.0:7400", "insecure": True}, "cannot be reached"),
        (PLATFORM, {"listen": "[::]:7400", "insecure": True}, "cannot be reached"),
        (PLATFORM, {"advertise": "ftp://a:1"}, "is no URL of a server"),
        (PLATFORM, {"reached_at": ("https://a:1", "a:1")}, "reachedAt a:1 is no URL of a server"),
        (PLATFORM, {"advertise": "http://a:1/path"}, "is no URL of a server"),
        (PLATFORM, {"advertise": "http://a:x"}, "is no URL"),
        (PLATFORM, {"advertise": "http://127.0.0.1@evil.example:1"}, "is no URL"),
        (PLATFORM, {"advertise": "http://hf.example:7400"}, "advertise http://hf.example:7400 is remote, without TLS"),
        (REGION, {"platform": ["http://hf.example:7400"]}, "platform http://hf.example:7400 is remote, without TLS"),
        (PLATFORM, {"tls_certificate": "c"}, "only valid together"),
        (PLATFORM, {"tls_key": "k"}, "only valid together"),
        (PLATFORM, {"tls_require_clients": True}, "the authorities of clients"),
        (PLATFORM, {"tls_certificate": "c", "tls_key": "k", "insecure": True}, "exclude each other"),
        (PLATFORM, {"tls_certificate": "c", "tls_key": "k", "advertise": "http://a:1"}, "use https"),
        (PLATFORM, {"watches": "0"}, "watches must be above zero"),
        (PLATFORM, {"timeout": "2m", "timeout_most": "1m"}, "longer than timeoutMost"),
        (PLATFORM, {"timeout_most": "2m"}, "longer than a minute"),
        (PLATFORM, {"writes_burst": "1"}, "less than writesPerSecond"),
        (PLATFORM, {"retention": "10s"}, "less than a minute"),
        (PLATFORM, {"snapshot_batches": "99"}, "snapshotBatches is less than 100"),
        (PLATFORM, {"ledger": ["sessionLeas=10s"]}, "did you mean sessionLease"),
        (PLATFORM, {"ledger": ["sessionLease=10"]}, "is not a duration"),
        (PLATFORM, {"ledger": ["keysPerActor=x"]}, "is not a count"),
        (PLATFORM, {"ledger": ["fenceTime=5s"]}, "otherwise two runs may overlap"),
    ],
)
def test_a_contradictory_set_is_refused_and_says_the_way_out(
    said: dict[str, object], more: dict[str, object], why: str
) -> None:
    found = invalid_settings(settings(said, **more))
    assert any(why in one for one in found), found


def test_a_region_without_a_certificate_may_believe_an_authority() -> None:
    assert invalid_settings(settings(PLATFORM, tls_trust="a")) == []


def test_tls_or_a_word_of_the_operator_opens_the_door_to_others() -> None:
    there: dict[str, object] = {"listen": "0.0.0.0:7400", "advertise": "http://hf.example:7400"}
    assert invalid_settings(settings(PLATFORM, **there, insecure=True)) == []
    tls: dict[str, object] = {"tls_certificate": "c", "tls_key": "k", "advertise": "https://hf.example:7400"}
    assert invalid_settings(settings(PLATFORM, listen="0.0.0.0:7400", **tls)) == []


def test_addresses_are_read_with_and_without_brackets() -> None:
    assert parse_listen("127.0.0.1:7400") == ("127.0.0.1", 7400)
    assert parse_listen("[::1]:7400") == ("::1", 7400)
    assert parse_listen("::") is None
    assert is_loopback("[::1]:7400")
    assert is_loopback("localhost:7400")
    assert not is_loopback("hf.example:7400")


def test_the_numbers_of_a_new_log_are_the_defaults_with_what_was_said() -> None:
    found, wrong = ledger_settings(settings(PLATFORM, ledger=["sessionLease=8s,keysPerActor=5"]))
    assert (found.session_lease, found.keys_per_actor, found.grace, wrong) == (8_000, 5, 10_000, [])
