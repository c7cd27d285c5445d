"""What a region shows to its platform."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.wiring.config.private_files import LOOK_EVERY_S, NoToken, TokenCredentials, write_private

FIRST, SECOND = (f"hf_{name}_{'x' * 43}" for name in ("first", "second"))


def test_the_token_of_the_file_is_shown_and_another_one_as_soon_as_it_is_there(tmp_path: Path) -> None:
    write_private(tmp_path / "token", f"{FIRST}\n")
    credentials = TokenCredentials(tmp_path / "token")
    assert credentials.headers() == (("authorization", f"Bearer {FIRST}"),)
    write_private(tmp_path / "token", f"{SECOND}\n")
    until(lambda: credentials.headers() == (("authorization", f"Bearer {SECOND}"),))


def test_a_file_that_is_gone_empty_half_written_or_open_to_others_leaves_the_last_good_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_private(path, f"{FIRST}\n")
    credentials = TokenCredentials(path)
    for harm in (
        lambda: path.write_text("", encoding="utf-8"),
        lambda: path.write_text(SECOND[:-1], encoding="utf-8"),
        lambda: path.chmod(0o644),
        path.unlink,
    ):
        harm()
        time.sleep(LOOK_EVERY_S)
        assert credentials.headers() == (("authorization", f"Bearer {FIRST}"),)


def test_a_file_that_hangs_keeps_nobody_waiting_and_is_read_when_it_answers(tmp_path: Path) -> None:
    path, pipe = tmp_path / "token", tmp_path / "pipe"
    write_private(path, f"{FIRST}\n")
    credentials = TokenCredentials(path)
    os.mkfifo(pipe, 0o600)
    pipe.replace(path)  # nobody writes: whoever opens it hangs
    for _ in range(3):
        time.sleep(LOOK_EVERY_S)
        assert credentials.headers() == (("authorization", f"Bearer {FIRST}"),)
    with path.open("w", encoding="utf-8") as answer:
        answer.write(f"{SECOND}\n")
    until(lambda: credentials.headers() == (("authorization", f"Bearer {SECOND}"),))


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)


@pytest.mark.parametrize("text", [None, "", "no token"])
def test_without_a_token_at_the_start_there_is_nothing_to_show(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        write_private(tmp_path / "token", text)
    with pytest.raises(NoToken):
        TokenCredentials(tmp_path / "token")
