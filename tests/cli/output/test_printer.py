"""What a terminal is sent: whoever wrote a name, a reason or an answer does not steer it."""

from __future__ import annotations

import io

import pytest

from holdfast.cli.errors import CliError, print_error
from holdfast.cli.options import print_note
from holdfast.cli.output import printer

#: Clears the screen, sets the title, asks the terminal to type its answer, goes back over the line; the last in C1.
STEERING = "a\x1b[2Jb\x1b]0;title\x07c\x1b[6nd\re\x9b2Jf\x7f"
WRITTEN_OUT = r"a\x1b[2Jb\x1b]0;title\x07c\x1b[6nd\x0de\x9b2Jf\x7f"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_others_wrote_does_not_steer_the_terminal_of_whoever_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    printer.print_data(printer.table(["NAME", "WHY"], [[STEERING, "two\tthree"]]))
    print_error(CliError(STEERING, hint=STEERING, lines=[STEERING]))
    print_note(STEERING)
    assert out.getvalue().splitlines()[1] == f"{WRITTEN_OUT}  two\tthree"
    assert out.getvalue().startswith("\x1b[1mNAME")
    assert err.getvalue().count(WRITTEN_OUT) == 4
    assert "\x1b" not in err.getvalue()


def test_programs_get_data_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    printer.print_data(STEERING)
    assert capsys.readouterr().out == f"{STEERING}\n"
