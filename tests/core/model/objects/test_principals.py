"""Tokens as people hold them."""

import pytest

from holdfast.core.model.objects.principals import hashed, is_hash, matches, parse, spoken

SECRET = "kZ-_" * 10 + "abc"


def test_a_token_reads_back_in_one_way_only() -> None:
    assert spoken("ci", SECRET) == f"hf_ci_{SECRET}"
    assert parse(f"hf_ci_{SECRET}") == ("ci", SECRET)
    assert parse(spoken("a" * 128, "_" * 43)) == ("a" * 128, "_" * 43)


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
    assert parse(text) is None


def test_a_token_that_could_not_be_read_back_is_not_spoken() -> None:
    with pytest.raises(AssertionError):
        spoken("c_i", SECRET)


def test_a_secret_matches_its_own_hash_only() -> None:
    assert is_hash(hashed(SECRET))
    assert matches(SECRET, hashed(SECRET))
    assert not matches(SECRET, hashed(SECRET[1:]))
    assert not matches(SECRET, "")
    assert not matches(SECRET, "\u00e9" * 64)
