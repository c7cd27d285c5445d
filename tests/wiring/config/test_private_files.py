"""Files with secrets: readable by their owner alone, written whole."""

from __future__ import annotations

import logging
import os
import stat
import sys
import threading
from io import StringIO
from pathlib import Path

import pytest

from holdfast.cli.errors import print_error, usage_error
from holdfast.cli.options import print_note
from holdfast.observe import log_output
from holdfast.wiring.config.private_files import NotPrivate, read_private, write_private

SECRET = "A" * 43


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_written_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "new" / "token", "first\n")
        write_private(tmp_path / "new" / "token", "second\n")
    finally:
        os.umask(before)
    assert (mode_of(tmp_path / "new" / "token"), mode_of(tmp_path / "new")) == (0o600, 0o700)
    assert read_private(tmp_path / "new" / "token") == "second"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["token"]


def test_a_secret_that_others_can_read_is_not_used_and_the_message_does_not_show_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_private(path, SECRET)
    path.chmod(0o640)
    with pytest.raises(NotPrivate, match="chmod 600") as refused:
        read_private(path)
    assert SECRET not in str(refused.value)


def test_a_file_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert read_private(tmp_path / "token") is None


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_token_that_slips_into_a_log_is_blotted_out(form: str) -> None:
    out = StringIO()
    root, level = logging.getLogger(), logging.getLogger().level
    handlers, hooks = list(root.handlers), (sys.excepthook, threading.excepthook, sys.unraisablehook)
    try:
        log_output.configure_logging("info", form, out)
        spoken = f"hf_operator-1_{SECRET}"
        logging.getLogger("holdfast.x").warning("got %s", spoken, extra={"event": "got", "fields": {"it": spoken}})
        root.handlers[0].flush()
    finally:
        root.handlers[:] = handlers
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
        root.setLevel(level)
        logging.getLogger("holdfast").setLevel(logging.NOTSET)
    assert SECRET not in out.getvalue()
    assert "hf_operator-1_(secret)" in out.getvalue()


def test_a_token_that_slips_into_what_the_command_line_says_is_blotted_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_note(f"GET http://127.0.0.1/?x=hf_operator-1_{SECRET}")
    print_error(
        usage_error(f"token0hf_operator-1_{SECRET}", f"not hf_operator-1_{SECRET}", [f"hf_operator-1_{SECRET}"])
    )
    said = capsys.readouterr().err
    assert SECRET not in said
    assert said.count("hf_operator-1_(secret)") == 4
