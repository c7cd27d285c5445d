"""Which hosts are this machine, and which URLs may carry credentials."""

from __future__ import annotations

import pytest

from holdfast.core.model.values.addresses import (
    address_problem,
    credentials_problem,
    is_cleartext,
    is_exposed,
    is_loopback,
    origin,
)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.255.0.9", "::1", "[::1]", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "localhost", "LocalHost"],
)
def test_loopback_is_this_machine(host: str) -> None:
    assert is_loopback(host)
    assert not is_cleartext("http", host)


@pytest.mark.parametrize(
    "host",
    [
        "", "128.0.0.1", "10.0.0.1", "0.0.0.0", "::", "::2", "fe80::1", "::ffff:10.0.0.1", "127.1", "2130706433",
        "0x7f000001", "127.0.0.1.nip.io", "localhost.", "localhost.example", "my.localhost", "ip6-localhost",
    ],
)  # fmt: skip
def test_whatever_is_not_plainly_loopback_is_elsewhere(host: str) -> None:
    assert not is_loopback(host)
    assert is_cleartext("http", host)
    assert not is_cleartext("HTTPS", host)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:7400", "http://localhost", "http://[::1]:7400/", "https://hf.example:7400", "https://10.0.0.1"],
)
def test_credentials_may_go_to_this_machine_and_over_https_elsewhere(url: str) -> None:
    assert credentials_problem(url) == ""


@pytest.mark.parametrize("url", ["http://hf.example:7400", "HTTP://10.0.0.1", "http://[fe80::1]:7400"])
def test_plain_http_elsewhere_is_exposed(url: str) -> None:
    assert address_problem(url) == ""
    assert is_exposed(url)
    assert "in the clear" in credentials_problem(url)


@pytest.mark.parametrize(
    "url",
    [
        "", "hf.example:7400", "ftp://a:1", "http://", "http://a:x", "http://a:0", "http://a:65536", "http://a/path",
        "http://a?x=1", "http://a#x", "http://127.0.0.1@evil.example", "http://127.0.0.1:80@evil.example:80",
        "http://127.0.0.1\\@evil.example", "http://[::1", "http://[zz]:1", "http://[1.2.3]:1", "https://a b", "http://a\n",
        "http://[::1%25lo]:1", "//a", "http:///a", "http://0.0.0.0:1", "http://[::]:1", "http://\u2460.example",
    ],
)  # fmt: skip
def test_what_two_parsers_could_read_in_two_ways_is_no_address(url: str) -> None:
    assert address_problem(url)
    assert credentials_problem(url)
    assert is_exposed(url) == url.startswith("http:")


def test_two_ways_to_write_an_address_are_one_origin() -> None:
    assert origin("https://EU.example/") == origin("HTTPS://eu.example:443") == "https://eu.example:443"
    assert origin("http://[::1]:7401") == "http://[::1]:7401"
    assert origin("https://eu.example") != origin("https://eu.example:7401")
    assert origin("http://eu.example") != origin("https://eu.example")
    assert origin("eu.example") == "https://eu.example:443"
    assert origin("https://eu.example/v1") == "https://eu.example/v1"
