"""`holdfast server`: run one server. Its flags are the table of settings (`wiring/config/server_settings.py`)."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from holdfast.cli.command import make_app
from holdfast.observe import log_output
from holdfast.wiring.config.server_settings import SETTINGS, ServerSettings, Setting, SettingType
from holdfast.wiring.config.sources import BadSetting, LoadedSettings, format_setting, load_settings, settings_table
from holdfast.wiring.config.validation import invalid_settings

CANNOT_START = 1
#: Set by benchmarks that measure stalls of a server's loop (`bench/fixtures/loop_stalls.py` names it too).
MEASURED = "HOLDFAST_BENCH_STALLS"
_FORMS = {SettingType.YES_NO: bool | None, SettingType.NAMES: list[str] | None, SettingType.PAIRS: list[str] | None}


def server(settings: str = "", show_settings: bool = False, **said: Any) -> None:
    """Run one server of the platform's ledger or of a region's.

    Settings come from defaults, a file, the environment and flags; a later source overrides an earlier one.
    """
    try:
        gathered = load_settings(settings, os.environ, said)
    except BadSetting as error:
        _refuse([str(error)])
    if show_settings:
        _show(gathered)
        return
    wrong = invalid_settings(gathered.settings)
    if wrong:
        _refuse(wrong)
    raise typer.Exit(_run(gathered.settings))


def _run(settings: ServerSettings) -> int:
    from holdfast.wiring.server import run

    if not os.environ.get(MEASURED):
        return run(settings)
    from holdfast.bench.fixtures.loop_stalls import write_stalls  # a benchmark has started this server

    with write_stalls(Path(settings.data)):
        return run(settings)


def _show(gathered: LoadedSettings) -> None:
    rows = settings_table(gathered)
    widths = [max(len(row[place]) for row in rows) for place in (0, 1)]
    for key, value, source in rows:
        typer.echo(f"{key:<{widths[0]}}  {value:<{widths[1]}}  {source}")
    for why in invalid_settings(gathered.settings):
        log_output.print_status(f"warning: {why}")


def _refuse(wrong: list[str]) -> NoReturn:
    for why in wrong:
        log_output.print_status(f"holdfast server: cannot start: {why}")
    log_output.print_status("hint: `holdfast server --show-settings` shows every setting and its source")
    raise typer.Exit(CANNOT_START)


def _option(setting: Setting) -> inspect.Parameter:
    """Return the flag of a setting. An absent flag is None, so that environment and file apply."""
    default = setting.made or format_setting(setting, getattr(ServerSettings(), setting.field))
    meant = f" One of: {', '.join(setting.choices)}." if setting.choices else ""
    shown_default = f" Default: {default}." if default not in ("", "no") else ""
    is_switch = setting.form is SettingType.YES_NO
    option = typer.Option(
        f"{setting.flag}/--no-{setting.flag[2:]}" if is_switch else setting.flag,
        metavar=None if is_switch else setting.form.value.upper(),
        help=f"{setting.why}{meant}{shown_default}",
        show_default=False,
    )
    kind: Any = _FORMS.get(setting.form, str | None)
    return inspect.Parameter(
        setting.field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )


def _signature() -> inspect.Signature:
    file = typer.Option("--settings", metavar="FILE", help="A YAML file of settings.", show_default=False)
    show = typer.Option("--show-settings", help="Print every setting and its source, and exit.")
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature(
        [
            inspect.Parameter("settings", keyword, default="", annotation=Annotated[str, file]),
            inspect.Parameter("show_settings", keyword, default=False, annotation=Annotated[bool, show]),
            *(_option(setting) for setting in SETTINGS),
        ]
    )


server.__signature__ = _signature()  # type: ignore[attr-defined]

app = make_app()
app.command("server")(server)
