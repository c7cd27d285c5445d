"""docs/reference/settings.md has every setting as the table in the code, and docs/operate every exit code."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.wiring.config.server_settings import SETTINGS
from holdfast.wiring.config.sources import load_settings
from holdfast.wiring.process import ExitCode
from tests.support.generated.settings_reference import DOCUMENT, written


def test_the_settings_in_the_document_are_those_of_the_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == written(text), "`make reference` writes it anew"


def test_every_setting_has_a_heading() -> None:
    headings = re.findall(r"^## (\w+)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [setting.key for setting in SETTINGS]


def test_the_settings_file_on_the_page_is_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "settings.yaml").write_text(example, encoding="utf-8")
    found = load_settings(str(tmp_path / "settings.yaml"), {"HOME": str(tmp_path)}, {})
    assert found.settings.region == "eu-central"
    assert "sessionLease" in str(found.settings.ledger)


def test_a_page_for_operators_has_every_exit_code_of_a_server() -> None:
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in (DOCUMENT.parents[1] / "operate").rglob("*.md"))
    tables = re.findall(r"^\| exit code \|.*\n(?:\|.*\n)+", text, re.MULTILINE)
    wanted = [str(int(ending)) for ending in ExitCode if ending is not ExitCode.SUPERSEDED]
    assert wanted in [re.findall(r"^\| (\d) \|", one, re.MULTILINE) for one in tables]
