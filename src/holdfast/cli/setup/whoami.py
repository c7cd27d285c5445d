"""`holdfast whoami`: the authenticated principal."""

from __future__ import annotations

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import connect
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat

app = make_app()


@command(app)
def whoami(options: GlobalOptions, output: OutputOption = OutputFormat.TEXT) -> None:
    """Show the authenticated principal, its permissions and scope; with --region, in that region."""
    found = connect(options, region=options.region).whoami()
    if printer.print_structured(found, output):
        return
    scope = {key: value for key, value in (found.get("scope") or {}).items() if value}
    rows = [
        ("principal", printer.format_value(found.get("principal"))),
        ("rights", ", ".join(found.get("rights") or ()) or "-"),
        ("where", ", ".join(f"{key} {value}" for key, value in scope.items()) or "everywhere"),
    ]
    if found.get("expires"):
        rows.append(("expires", f"{found['expires']} ({printer.format_age(found['expires'])})"))
    printer.print_data(printer.pairs(rows))
