"""What a region shows to its platform."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.wiring.credentials import Credentials, NoToken
from holdfast.wiring.private import write_private


def test_the_token_of_the_file_is_shown_and_another_one_as_soon_as_it_is_there(tmp_path: Path) -> None:
    write_private(tmp_path / "token", "first\n")
    credentials = Credentials(tmp_path / "token")
    assert credentials.headers() == (("authorization", "Bearer first"),)
    write_private(tmp_path / "token", "second\n")
    assert credentials.headers() == (("authorization", "Bearer second"),)


def test_a_file_that_is_gone_empty_or_open_to_others_leaves_the_last_good_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_private(path, "first\n")
    credentials = Credentials(path)
    for harm in (lambda: path.write_text("", encoding="utf-8"), lambda: path.chmod(0o644), path.unlink):
        harm()
        assert credentials.headers() == (("authorization", "Bearer first"),)


@pytest.mark.parametrize("text", [None, ""])
def test_without_a_token_at_the_start_there_is_nothing_to_show(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        write_private(tmp_path / "token", text)
    with pytest.raises(NoToken):
        Credentials(tmp_path / "token")
