"""`holdfast region`: a region's address, and an operator's statements about a region that does not respond.

Lost: the region may still run, but failover need not wait. The region ends this state itself when it reconnects.
Forgotten: nothing runs there any more, so everything it held is released; this is final. Between the two, an operator
can attest that single identities do not run there, so that they may start elsewhere. If another sender reported in a
region's name, an operator can accept the region's log again.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.command import ReasonOption, command, make_app, require_reason
from holdfast.cli.connect import connect, explain_errors
from holdfast.cli.context import resolve
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.targets import resolve_object

app = make_app(
    "Set a region's address; accept its log, declare it lost, attest stopped identities, or forget it.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Region.")]
Address = Annotated[str, typer.Argument(metavar="URL", help="Address of its servers: `https://HOST:PORT`.")]
Destroyed = Annotated[bool, typer.Option("--destroyed", help="Attest that nothing runs there, nor will again.")]
Whole = Annotated[bool, typer.Option("--whole", help="Attest that its log is complete.")]
Workload = Annotated[str, typer.Argument(metavar="WORKLOAD", help="The exclusive workload: `TENANT/NAME`.")]
Ordinals = Annotated[list[int], typer.Argument(metavar="ORDINAL...", min=0, help="Ordinals.")]
Stopped = Annotated[bool, typer.Option("--stopped", help="Attest that they do not run there.")]


@command(app, "set-address", without=("tenant", "region"))
def set_address(options: GlobalOptions, name: Name, address: Address) -> None:
    """Set the address at which the platform reaches a region. Without it, the region reports to the platform, and the
    platform sends nothing to it."""
    before: list[str] = []

    def change(found: dict[str, Any]) -> dict[str, Any] | None:
        before.append(found["spec"].get("address", ""))
        return None if before[-1] == address else {**found, "spec": {**found["spec"], "address": address}}

    with explain_errors(options, f"region/{name}"):
        connect(options).edit("regions", name, change)
    printer.print_data(f"region/{name} {'unchanged' if before[-1] == address else f'has the address {address}'}")


@command(app, without=("tenant", "region"))
def believe(options: GlobalOptions, name: Name, whole: Whole = False, reason: ReasonOption = "") -> None:
    """Accept a region's own log again, whatever was acknowledged in its name.

    For a region whose token was stolen: another sender reported a log position beyond its own, so the region accepts
    and reports nothing. Revoke that token first.
    """
    if not whole:
        said = f"region {name}: --whole is required: it attests that the region's store is complete"
        lines = (
            "a store restored from a backup would issue uids and revisions that are already in use",
            "a region with such a store must be forgotten and start a new log",
        )
        raise usage_error(said, f"if its store lost its last batches: `holdfast region forget {name}`", lines)
    require_reason(reason)
    _send(options, "believe-region", name, reason)
    printer.print_data(f"region/{name} accepted")
    print_note("it rejoins within seconds; `holdfast status` shows its progress")


@command(app, without=("tenant", "region"))
def forget(options: GlobalOptions, name: Name, destroyed: Destroyed = False, reason: ReasonOption = "") -> None:
    """Retire a region for good. Everything it held is released, and deletions that waited for it complete.

    This cannot be undone. The platform never accepts its log again; machines of that region may join only with a new
    one.
    """
    if not destroyed:
        said = f"region {name}: --destroyed is required: it attests that nothing of the region runs any more"
        lines = (
            "its rights, grants and finalizers are released at once, and its replicas may start elsewhere",
            "if anything still runs there, the same identity runs twice",
        )
        hint = f"if it may still run: `holdfast region declare-lost {name} --reason TEXT`"
        raise usage_error(said, hint, lines)
    require_reason(reason)
    _send(options, "retire-region", name, reason)
    printer.print_data(f"region/{name} forgotten")
    print_note(f"it may rejoin only with a new log; `holdfast delete region {name}` removes its object")


@command(app, "declare-lost", without=("tenant", "region"))
def declare_lost(options: GlobalOptions, name: Name, reason: ReasonOption = "") -> None:
    """Declare a region lost now, without waiting for its silence to last: failover may begin.

    The region keeps what it holds, because it may still run. It becomes healthy again when it reconnects.
    """
    require_reason(reason)
    _send(options, "declare-lost", name, reason)
    printer.print_data(f"region/{name} declared lost")
    print_note("`holdfast get workloads -A` shows the affected workloads")


@command(app, without=("region",))
def attest(
    options: GlobalOptions,
    name: Name,
    workload: Workload,
    ordinals: Ordinals,
    stopped: Stopped = False,
    reason: ReasonOption = "",
) -> None:
    """Attest that identities of an exclusive workload do not run in a region. Their rights are released at once.

    For a lost region of which it is certain that these do not run, for example because its machines have no power. The
    region keeps everything else that it holds.
    """
    context = resolve(options)
    one = resolve_object(("workload", workload), context)
    said = f"{' '.join(map(str, ordinals))} of {one}"
    if not stopped:
        lines = (
            "their rights are released at once, and they may start elsewhere",
            "if one of them still runs there, the same identity runs twice",
        )
        hint = f"`holdfast get replicas --region {name} --tenant {one.tenant}` shows what runs, if the region responds"
        raise usage_error(f"{said} in region {name}: --stopped is required to attest", hint, lines)
    require_reason(reason)
    client = connect(options, context)
    with explain_errors(options, one):
        uid = client.get(one.kind.plural, one.name, tenant=one.tenant)["metadata"]["uid"]
        for ordinal in ordinals:
            client.command("attest-right", workload=uid, ordinal=ordinal, region=name, reason=reason)
            printer.print_data(f"{one}/{ordinal} attested not to run in region {name}")
    print_note(f"`holdfast describe workload {one.tenant}/{one.name}` shows where it is assigned")


def _send(options: GlobalOptions, tag: str, name: str, reason: str) -> None:
    with explain_errors(options, f"region/{name}"):
        connect(options).command(tag, region=name, reason=reason)
