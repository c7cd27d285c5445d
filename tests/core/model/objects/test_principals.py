"""Tokens as people hold them."""

import pytest

from holdfast.core.model.objects.principals import format_token, hash_secret, is_hash, parse_token, verify_secret

SECRET = "kZ-_" * 10 + "abc"


def test_a_token_reads_back_in_one_way_only() -> None:
    assert format_token("ci", SECRET) == f"hf_ci_{SECRET}"
    assert parse_token(f"hf_ci_{SECRET}") == ("ci", SECRET)
    assert parse_token(format_token("a" * 128, "_" * 43)) == ("a" * 128, "_" * 43)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hf__" + SECRET,
        "hf_ci_" + SECRET[1:],
        "hf_ci_" + SECRET + "a",
        "HF_ci_" + SECRET,
        "hf_Ci_" + SECRET,
        "hf_c_i_" + SECRET,
        "hf_ci-_" + SECRET,
        "hf_ci_" + SECRET[1:] + "+",
        "hf_ci_" + SECRET + "\n",
        "hf_ci_" + SECRET[1:] + "\u00e9",
        "hf_" + "a" * 129 + "_" + SECRET,
        "hf_ci_" + "a" * 100_000,
    ],
)
def test_what_is_no_token_is_none(text: str) -> None:
    assert parse_token(text) is None


def test_a_token_that_could_not_be_read_back_is_not_spoken() -> None:
    with pytest.raises(AssertionError):
        format_token("c_i", SECRET)


def test_a_secret_matches_its_own_hash_only() -> None:
    assert is_hash(hash_secret(SECRET))
    assert verify_secret(SECRET, hash_secret(SECRET))
    assert not verify_secret(SECRET, hash_secret(SECRET[1:]))
    assert not verify_secret(SECRET, "")
    assert not verify_secret(SECRET, "\u00e9" * 64)
