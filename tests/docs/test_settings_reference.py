"""docs/reference/settings.md has every setting as the table in the code, and docs/operate every exit code."""

from __future__ import annotations

import re

from holdfast.wiring.config.server_settings import SETTINGS
from holdfast.wiring.process import ExitCode
from tests.support.generated.settings_reference import DOCUMENT, written


def test_the_settings_in_the_document_are_those_of_the_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == written(text), "`make reference` writes it anew"


def test_every_setting_has_a_heading() -> None:
    headings = re.findall(r"^## (\w+)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [setting.key for setting in SETTINGS]


def test_every_exit_code_of_a_server_is_told() -> None:
    page = (DOCUMENT.parents[1] / "operate" / "all.md").read_text(encoding="utf-8")
    part = page.split("## One server\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d) \|", part, re.MULTILINE)
    assert rows == [str(int(ending)) for ending in ExitCode if ending is not ExitCode.SUPERSEDED]
