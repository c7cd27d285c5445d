"""`holdfast can-i`: whether a command or a permission is granted. Exit code 0: yes; 1: no."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.command import command, make_app
from holdfast.cli.connect import connect, to_cli_error
from holdfast.cli.context import CliContext, resolve
from holdfast.cli.errors import CliExitCode, usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer

app = make_app()

#: Permissions of users; any other word is the tag of a command.
RIGHTS = ["read", "write", "operate", "override", "break-glass", "promote-policy", "see-other-tenants", "audit"]

What = Annotated[
    str, typer.Argument(metavar="COMMAND|RIGHT", help="For example put-workload, declare-lost or operate.")
]
Node = Annotated[str, typer.Option("--node", metavar="NAME", help="Node of the scope.")]


@command(app)
def can_i(options: GlobalOptions, what: What, node: Node = "") -> int:
    """Check whether you may send a command, or have a permission, in the scope of --tenant, --region and --node."""
    context = resolve(options)
    client = connect(options, context, region=_whose(what, context))
    asked = {"right": what} if what in RIGHTS else {"command": what}
    try:
        answer = client.can_i(**asked, tenant=context.tenant, region=context.region, node=node)
    except Exception as error:
        told = to_cli_error(error, options.verbose)
        if told.ending is CliExitCode.REFUSED:  # An invalid request is a usage error, not a `no`.
            raise usage_error(
                str(told), "docs/reference/commands.md lists the commands; permissions: " + ", ".join(RIGHTS)
            ) from None
        raise told from None
    printer.print_data("yes" if answer.allowed else "no")
    if answer.why:
        print_note(answer.why)
    return CliExitCode.DONE if answer.allowed else CliExitCode.REFUSED


def _whose(what: str, context: CliContext) -> str:
    """Return the region that has this command; empty if the platform has it, or neither is known to."""
    from holdfast.api.resources.schemas import tags

    if what in RIGHTS or what in tags("platform") or what not in tags("region"):
        return ""
    if not context.region:
        raise usage_error(f"{what} is a command of regions: no region given", f"`holdfast can-i {what} --region NAME`")
    return context.region
