"""`holdfast version`: the versions of this program and of the server."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import holdfast
from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat

app = make_app()

#: Time limit for the server's answer without --timeout: a user who wants a version should not wait.
SHORT = "2s"


@command(app)
def version(
    options: GlobalOptions,
    client: Annotated[bool, typer.Option("--client", help="Only this program's version; send no request.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show the versions of this program and of the server (with --region, of that region's), and whether they match."""
    found = {"client": holdfast.__version__}
    if not client:
        found |= _served(options)
    if printer.print_structured(found, output):
        return
    printer.print_data(printer.pairs([(name, value) for name, value in found.items() if name != "skew"]))
    if found.get("skew"):
        print_note(f"warning: {found['skew']}")


def _served(options: GlobalOptions) -> dict[str, Any]:
    from holdfast.cli.connect import connect, to_cli_error

    try:
        hasty = options._replace(timeout=options.timeout or SHORT)
        status = connect(hasty, region=options.region).status()
    except Exception as error:
        print_note(f"no server answered: {to_cli_error(error, options.verbose)}")
        return {}
    server = str(status.get("version", ""))
    return {"server": server, "skew": skew(holdfast.__version__, server)}


def skew(ours: str, theirs: str) -> str:
    """Return a warning about two versions; empty if they are at most one minor version apart."""
    if not theirs or ours == theirs:
        return ""
    mine, other = _numbers(ours), _numbers(theirs)
    if mine is None or other is None:
        return f"this program is {ours} and the server is {theirs}"
    if mine[0] != other[0] or abs(mine[1] - other[1]) > 1:
        return f"this program ({ours}) and the server ({theirs}) are more than one minor version apart"
    return ""


def _numbers(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and all(one.isdigit() for one in parts[:2]) else None
