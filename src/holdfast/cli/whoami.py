"""`holdfast whoami`: whom the server takes you for."""

from __future__ import annotations

from holdfast.cli import shown
from holdfast.cli.commands import Printed, an_app, command
from holdfast.cli.connect import connect
from holdfast.cli.contexts import resolve
from holdfast.cli.options import Options
from holdfast.cli.shown import Data

app = an_app()


@command(app)
def whoami(options: Options, output: Printed = Data.TEXT) -> None:
    """Show whom the server takes you for, what you may do and where; with --region, whom that region does."""
    found = connect(options, resolve(options), region=options.region).whoami()
    if shown.printed(found, output):
        return
    scope = {key: value for key, value in (found.get("scope") or {}).items() if value}
    rows = [
        ("principal", shown.cell(found.get("principal"))),
        ("rights", ", ".join(found.get("rights") or ()) or "-"),
        ("where", ", ".join(f"{key} {value}" for key, value in scope.items()) or "everywhere"),
    ]
    if found.get("expires"):
        rows.append(("expires", f"{found['expires']} ({shown.ago(found['expires'])})"))
    shown.say(shown.pairs(rows))
