"""`holdfast token`: create, list and revoke tokens.

The secret is created here and never leaves this machine: the server receives its hash. A reader of the ledger, of a
backup or of the audit log cannot use the token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import ApiClient, connect, explain_errors
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, parse_duration_option, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat
from holdfast.cli.output.report import Cell, print_report

app = make_app("Create, list and revoke tokens.", no_args_is_help=True)

Principal = Annotated[str, typer.Option("--principal", metavar="NAME", help="Its principal: person/oncall.")]
Ttl = Annotated[str, typer.Option("--ttl", metavar="TIME", help="Validity, such as 12h or 30d.")]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the token; default: generated.")]
Replaces = Annotated[
    str,
    typer.Option("--replaces", metavar="OLD", help="Old token of the same principal, which expires after --overlap."),
]
Overlap = Annotated[str, typer.Option("--overlap", metavar="TIME", help="Remaining validity of the old token.")]
AnyNode = Annotated[
    bool, typer.Option("--any-node", help="Allow a token of all agents or schedulers, or of one in all regions.")
]


@command(app, without=("tenant", "region"))
def create(
    options: GlobalOptions, principal: Principal = "", ttl: Ttl = "", name: Name = "", replaces: Replaces = "",
    overlap: Overlap = "1h", any_node: AnyNode = False,
) -> None:  # fmt: skip
    """Create a token and print it once: `holdfast token create --principal person/oncall --ttl 30d > oncall.token`.

    With --replaces, the old token stays valid for --overlap, so that its users can change over. A machine's token is
    for one machine in one region. A token for all of them needs --any-node, and `status` warns of it.
    """
    import hashlib
    import secrets

    if not ttl:
        raise usage_error("--ttl is required", "for example `--ttl 30d`")
    overlap_ms = parse_duration_option(overlap, "--overlap")
    client = connect(options)
    if replaces:
        old = client.get("tokens", replaces)
        principal = principal or old["spec"]["principal"]
    if not principal:
        raise usage_error("--principal is required", "for example `--principal person/oncall`, or --replaces OLD")
    if principal in ("agent/*", "scheduler/*") and not any_node:
        raise usage_error(
            f"a token of {principal} authenticates all of them", "create one for each, or pass `--any-node`"
        )
    name = name or f"{principal.rpartition('/')[2].replace('_', '-').replace('*', 'any')}-{secrets.token_hex(4)}"
    if "_" in name:
        raise usage_error(f"--name {name}: a token's name contains no underscore, which separates it from the secret")
    secret = secrets.token_urlsafe(32)
    expires = printer.instant_in(parse_duration_option(ttl, "--ttl"))
    spec: dict[str, Any] = {
        "principal": principal,
        "hash": hashlib.sha256(secret.encode()).hexdigest(),
        "expires": expires,
    }
    if any_node:
        spec["any"] = True
    document = {"apiVersion": "holdfast/v1", "kind": "Token", "metadata": {"name": name}, "spec": spec}
    with explain_errors(options, f"token/{name}"):
        client.put(document, create_only=True)
    printer.print_data(f"hf_{name}_{secret}")
    print_note(f"token/{name} of {principal}, valid until {expires}; it is not shown again")
    if replaces:
        _retire(client, replaces, overlap_ms)


def _retire(client: ApiClient, name: str, overlap_ms: int) -> None:
    """Let the replaced token expire soon, unless it does anyway."""
    ends = printer.instant_in(overlap_ms)

    def change(found: dict[str, Any]) -> dict[str, Any] | None:
        spec = found["spec"]
        if spec.get("revoked") or str(spec["expires"]) <= ends:
            return None
        return {**found, "spec": {**spec, "expires": ends}}

    done = client.edit("tokens", name, change)
    print_note(
        f"token/{name} is valid until {done.object['spec']['expires']}; `holdfast token revoke {name}` revokes it now"
    )


@command(app, "list", without=("tenant", "region"))
def list_tokens(options: GlobalOptions, principal: Principal = "", output: OutputOption = OutputFormat.TEXT) -> None:
    """List tokens with principal and expiry. Nobody but the holder has the secret."""
    found = [
        one for one in connect(options).list("tokens").items if not principal or one["spec"]["principal"] == principal
    ]
    columns: dict[str, Cell] = {
        "NAME": "metadata.name", "PRINCIPAL": "spec.principal", "EXPIRES": "spec.expires", "STATE": _state,
    }  # fmt: skip
    print_report({"items": found}, output, found, columns)


def _state(token: Mapping[str, Any]) -> str:
    spec = token["spec"]
    if spec.get("revoked"):
        return "revoked"
    return "expired" if str(spec["expires"]) <= printer.instant_in(0) else "valid"


@command(app, without=("tenant", "region"))
def revoke(options: GlobalOptions, name: Annotated[str, typer.Argument(metavar="NAME", help="Token.")]) -> None:
    """Revoke a token now. This cannot be undone."""

    def change(found: dict[str, Any]) -> dict[str, Any] | None:
        return None if found["spec"].get("revoked") else {**found, "spec": {**found["spec"], "revoked": True}}

    with explain_errors(options, f"token/{name}"):
        done = connect(options).edit("tokens", name, change)
    printer.print_data(f"token/{name} {'was revoked before' if done.outcome == 'unchanged' else 'revoked'}")
