"""`holdfast policy`: activate, inspect and roll back scheduler policies.

A revision that `holdfast apply` publishes is not valid yet. One revision is valid per region and scope: activation
replaces it, and a rollback names its successor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from holdfast.cli.command import OutputOption, ReasonOption, command, make_app, require_reason
from holdfast.cli.connect import ApiClient, connect, explain_errors
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat
from holdfast.cli.output.report import Cell, print_report

app = make_app("Activate, inspect and roll back scheduler policies.", no_args_is_help=True)

#: The revision of the built-in policy, which the server shows without one.
BUILT_IN = "0.0"


class ActivationStage(StrEnum):
    """Stages of an activation."""

    CANARY = "canary"
    ACTIVE = "active"


Name = Annotated[str, typer.Argument(metavar="[NAME]", help="This policy only.")]
Revision = Annotated[
    str, typer.Argument(metavar="REVISION|NAME", help="For example 41.3; a name means its newest revision.")
]
Taken = Annotated[str, typer.Argument(metavar="REVISION", help="For example 41.3.")]
Staged = Annotated[ActivationStage, typer.Option("--stage", help="A trial, or in force.")]
To = Annotated[str, typer.Option("--to", metavar="REVISION|NAME", help="The revision that replaces it.")]


@command(app, without=("tenant", "region"))
def history(options: GlobalOptions, name: Name = "", output: OutputOption = OutputFormat.TEXT) -> None:
    """Show all revisions, newest first. For each: stage, author, time, and where it is valid."""
    found = [one for one in _all(connect(options)) if not name or _name(one) == name]
    columns: dict[str, Cell] = {
        "REVISION": _revision, "NAME": _name, "STAGE": lambda one: _status(one, "stage"),
        "AUTHOR": lambda one: _status(one, "author"), "WHEN": lambda one: _status(one, "at"), "VALID": _valid,
    }  # fmt: skip
    print_report({"items": found}, output, found, columns, empty=f"there is no policy {name}")


@command(app)
def activate(options: GlobalOptions, revision: Revision, stage: Staged = ActivationStage.ACTIVE) -> None:
    """Make a revision valid in the region of --region.

    It is valid for --tenant, or for all tenants that have no own policy.
    """
    if not options.region:
        raise usage_error("--region is required: where the policy becomes valid", "`--region NAME`")
    client = connect(options)
    where = _place(options.region, options.tenant)
    with explain_errors(options, f"policy/{revision}"):
        policy = client.get("policies", revision)
        fields = {"revision": _revision(policy), "region": options.region, "stage": stage.value}
        client.command("activate-policy", **fields, scope=options.tenant)
    printer.print_data(f"policy/{_name(policy)} {_revision(policy)} is valid in {where}")


@command(app, without=("tenant", "region"))
def rollback(options: GlobalOptions, revision: Taken, to: To = "", reason: ReasonOption = "") -> None:
    """Roll a revision back for good. The revision of --to replaces it everywhere. Without --to, it is the previous
    active revision of the same policy, or else the built-in policy."""
    if not revision[:1].isdigit():
        raise usage_error(
            f"{revision}: a revision is required, because the rollback is final",
            f"`holdfast policy history {revision}`",
        )
    require_reason(reason)
    client = connect(options)
    with explain_errors(options, f"policy/{revision}"):
        policy = client.get("policies", revision)
        after = client.get("policies", to) if to else _before(policy, _all(client))
        client.command("roll-back-policy", revision=_revision(policy), successor=_revision(after), reason=reason)
    printer.print_data(f"policy/{_name(policy)} {_revision(policy)} rolled back to {_name(after)} {_revision(after)}")
    for one in _status(policy, "valid") or ():
        print_note(f"valid in {_place(one['region'], one.get('tenant', ''))}: {_name(after)} {_revision(after)}")


def _before(policy: Mapping[str, Any], known: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the previous active revision of the same policy, else the built-in policy."""
    mine, found = _order(policy), list(known)
    for one in found:
        if _name(one) == _name(policy) and _order(one) < mine and _status(one, "stage") in list(ActivationStage):
            return one
    return next(one for one in found if _revision(one) == BUILT_IN)


def _all(client: ApiClient) -> list[dict[str, Any]]:
    return sorted(client.list("policies").items, key=_order, reverse=True)


def _order(policy: Mapping[str, Any]) -> tuple[int, ...]:
    """Return a revision's position in the log."""
    return tuple(int(part) for part in _revision(policy).split("."))


def _name(policy: Mapping[str, Any]) -> str:
    return str(policy["metadata"]["name"])


def _revision(policy: Mapping[str, Any]) -> str:
    return str(policy["metadata"].get("revision") or BUILT_IN)


def _status(policy: Mapping[str, Any], field: str) -> Any:
    return policy["status"].get(field) or ""


def _valid(policy: Mapping[str, Any]) -> str:
    places = [_place(one["region"], one.get("tenant", "")) for one in _status(policy, "valid") or ()]
    return ", ".join(places) or "-"


def _place(region: str, tenant: str) -> str:
    return f"{region} for {tenant}" if tenant else region
