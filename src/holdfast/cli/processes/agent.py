"""`holdfast agent`: the agent of a node, which runs the replicas bound to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.command import make_app
from holdfast.cli.processes.machine_options import run_machine, with_machine_options
from holdfast.core.model.records.nodes import Device
from holdfast.core.model.values.quantities import parse_cpu, parse_memory
from holdfast.core.model.values.resources import Resources

Node = Annotated[str, typer.Option(metavar="NAME", help="Name of the node; the agent's principal is agent/NAME.")]
Data = Annotated[Path, typer.Option(metavar="DIR", help="Data folder of the agent.")]
Pool = Annotated[str, typer.Option(metavar="P", help="Node pool.")]
Zone = Annotated[str, typer.Option(metavar="Z", help="Zone of the node.")]
Address = Annotated[str, typer.Option(metavar="HOST", help="Address at which the node's ports are reached.")]
Label = Annotated[list[str] | None, typer.Option(metavar="K=V", help="Label of the node; may be repeated.")]
Cpu = Annotated[str, typer.Option(metavar="AMOUNT", help="Processors: 8, 500m. Default: all.")]
Memory = Annotated[str, typer.Option(metavar="AMOUNT", help="Memory: 16Gi. Default: all.")]
Disk = Annotated[str, typer.Option(metavar="AMOUNT", help="Disk: 100Gi. Default: free space.")]
Gpu = Annotated[list[str] | None, typer.Option(metavar="MODEL", help="Model of one GPU; may be repeated.")]
Ports = Annotated[str, typer.Option(metavar="A-B", help="Ports for replicas.")]
TenantUsers = Annotated[str, typer.Option(metavar="A-B", help="User ids for tenants, if the agent is root.")]
TenantMap = Annotated[
    Path, typer.Option(metavar="FILE", help="File that maps them to tenants; shared by all agents of a machine.")
]
Allow = Annotated[
    list[str] | None, typer.Option(metavar="TENANT=USER", help="A user that the tenant may run as; may be repeated.")
]
SecretFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of secrets: DIR/TENANT for each tenant.", show_default=False)
]
SecretVariable = Annotated[
    list[str] | None,
    typer.Option(metavar="TENANT=NAME", help="Pass a variable of the agent to a tenant; may be repeated."),
]
Present = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder whose file names are the cached artifacts.", show_default=False),
]
Environment = Annotated[
    list[str] | None, typer.Option(metavar="K=V", help="Variable for all replicas; may be repeated.")
]
Tenant = Annotated[
    str, typer.Option("--tenant", metavar="NAME", help="Accept replicas of this tenant only.", show_default=False)
]
ShareUser = Annotated[bool, typer.Option("--share-user", help="Run all tenants as one user if not root: no isolation.")]
StopWork = Annotated[bool, typer.Option("--stop-work", help="Stop all replicas when the agent stops.")]
NoCgroups = Annotated[bool, typer.Option("--no-cgroups", help="Enforce limits by polling, without cgroups.")]

NoNamespaces = Annotated[bool, typer.Option("--no-namespaces", help="Let replicas see the node's processes and /tmp.")]


def agent(  # long: one line for each option
    common: dict[str, Any],
    node: Node,
    data: Data,
    pool: Pool = "general",
    zone: Zone = "default",
    address: Address = "127.0.0.1",
    label: Label = None,
    cpu: Cpu = "",
    memory: Memory = "",
    disk: Disk = "",
    gpu: Gpu = None,
    ports: Ports = "30000-30999",
    present: Present = None,
    environment: Environment = None,
    tenant_users: TenantUsers = "200000-265535",
    tenant_map: TenantMap = Path("/var/lib/holdfast-tenants/users.json"),
    allow_user: Allow = None,
    secret_folder: SecretFolder = None,
    secret_variable: SecretVariable = None,
    no_cgroups: NoCgroups = False,
    no_namespaces: NoNamespaces = False,
    tenant: Tenant = "",
    share_user: ShareUser = False,
    stop_work: StopWork = False,
) -> None:
    """Run the agent of a node, which runs the replicas bound to it.

    Replicas outlive their agent: after a restart the agent adopts them. A node has one agent: a second one with the
    same name takes over, and the first one ends.

    An agent without root runs all replicas as its own user. It accepts one tenant at a time: that of `--tenant` or the
    first one, unless `--share-user` is set.
    """
    from holdfast.wiring.agent import AGENT, NodeOptions, invalid_node_options, run
    from holdfast.wiring.machine import MachineOptions

    options = MachineOptions(kind=AGENT, name=node, **common)
    unreadable: list[str] = []
    found = NodeOptions(
        data=data.expanduser().absolute(),
        pool=pool,
        zone=zone,
        address=address,
        labels=tuple(sorted(_pairs("label", label, unreadable).items())),
        capacity=_capacity(cpu, memory, disk, unreadable),
        devices=tuple(Device(model) for model in gpu or ()),
        ports=_range("ports", ports, unreadable),
        present=present,
        environment=tuple(_pairs("variable", environment, unreadable).items()),
        tenant_users=_range("tenant users", tenant_users, unreadable),
        tenant_map=tenant_map.expanduser().absolute(),
        users=tuple(_each("user", allow_user, unreadable)),
        secret_folder=secret_folder.expanduser().absolute() if secret_folder is not None else None,
        secret_variables=tuple(_each("secret variable", secret_variable, unreadable)),
        cgroups=not no_cgroups,
        namespaces=not no_namespaces,
        hidden=tuple(file for file in (options.token_file, options.tls_key) if file),
        tenant=tenant,
        share_user=share_user,
        stop_work=stop_work,
    )
    run_machine(
        options, [*unreadable, *([] if unreadable else invalid_node_options(found))], lambda: run(options, found)
    )


def _pairs(what: str, said: Iterable[str] | None, unreadable: list[str]) -> dict[str, str]:
    return dict(_each(what, said, unreadable, "KEY=VALUE"))


def _each(
    what: str, said: Iterable[str] | None, unreadable: list[str], form: str = "TENANT=NAME"
) -> Iterator[tuple[str, str]]:
    for one in said or ():
        key, equals, value = one.partition("=")
        if not key or not equals or (form != "KEY=VALUE" and not value):
            unreadable.append(f"{what} {one!r} is not {form}")
        yield key, value


def _capacity(cpu: str, memory: str, disk: str, unreadable: list[str]) -> Resources:
    """Return the declared capacity; 0 where not declared."""
    amounts = []
    for name, text, read in (("cpu", cpu, parse_cpu), ("memory", memory, parse_memory), ("disk", disk, parse_memory)):
        try:
            amounts.append(read(text) if text else 0)
        except ValueError as error:
            unreadable.append(f"--{name} {text!r}: {error}")
            amounts.append(0)
    return Resources(amounts[0], amounts[1], amounts[2])


def _range(what: str, said: str, unreadable: list[str]) -> tuple[int, int]:
    first, _, last = said.partition("-")
    if first.isdecimal() and last.isdecimal():
        return int(first), int(last)
    unreadable.append(f"{what} {said!r} are not A-B")
    return 1, 1


app = make_app()
app.command("agent")(with_machine_options(agent))
