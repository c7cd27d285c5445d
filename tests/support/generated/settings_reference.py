"""The settings in docs/reference/settings.md, written from the table in the code.

python -m tests.support.generated.settings_reference    writes it anew
"""

from __future__ import annotations

from holdfast.wiring.config.server_settings import SETTINGS, ServerSettings, Setting
from holdfast.wiring.config.sources import format_setting
from tests.support.generated.markdown import FOLDER, replaced

DOCUMENT = FOLDER / "settings.md"
BEGINS, ENDS = "<!-- settings: written by `make reference` -->", "<!-- end of settings -->"


def table() -> str:
    """One heading for each setting."""
    return "\n".join(_section(setting) for setting in SETTINGS)


def _section(setting: Setting) -> str:
    default = format_setting(setting, getattr(ServerSettings(), setting.field))
    form = ", ".join(f"`{choice}`" for choice in setting.choices) or setting.form.value
    said = setting.made or (f"`{default}`" if default else "none")
    return (
        f"## {setting.key}\n\n"
        f"{setting.why}\n\n"
        f"- written as: {form}; default: {said}\n"
        f"- environment: `{setting.variable}`; flag: `{setting.flag}`\n"
        f"- if wrong: {setting.otherwise}\n"
    )


def written(document: str) -> str:
    """The document with the part between the marks as it should be."""
    return replaced(document, BEGINS, ENDS, table())


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
