"""`holdfast explain`: why a workload waits, or why a slot is on its node. The text is in `output.explanation`.

In other tools this command explains fields; here that is `schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.api.kinds import BY_NAME, find_kind
from holdfast.cli.command import OutputOption, command, complete_workloads, make_app
from holdfast.cli.connect import ApiClient, ask_regions, connect, is_not_found, region_clients
from holdfast.cli.context import CliContext, resolve
from holdfast.cli.errors import CliError, usage_error
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import explanation, printer
from holdfast.cli.output.printer import OutputFormat
from holdfast.cli.targets import ObjectRef, object_ref

app = make_app()

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="WORKLOAD|SLOT",
        help="[TENANT/]NAME, or a slot: [TENANT/]WORKLOAD/REGION/ORDINAL.",
        autocompletion=complete_workloads,
    ),
]
#: Number of recent decisions shown with a workload.
LATELY = 5


@command(app)
def explain(options: GlobalOptions, words: Words, output: OutputOption = OutputFormat.TEXT) -> None:
    """Explain why a workload waits, who can act and what resolves it; or when, why and by whom a slot was placed.

    Decisions are kept for a while after a workload is deleted.
    """
    context = resolve(options)
    one = _meant(words, context)
    if one.kind.name == "Replica":
        _slot(options, context, one, output)
    else:
        _workload(options, context, one, output)


def _meant(words: list[str], context: CliContext) -> ObjectRef:
    """Return the workload or slot; its kind may precede its name."""
    first, slash, rest = words[0].partition("/")
    if len(words) == 1 and not slash and find_kind(first.partition(".")[0]) is not None:
        raise usage_error(f"{first}: use `schema` to explain the fields of a kind", f"`holdfast schema {first}`")
    kind = find_kind(first) if len(words) == 2 or slash else None
    if len(words) > 2 or (len(words) == 2 and kind is None):
        raise usage_error("exactly one workload or slot is required", "`holdfast explain shop/web`")
    if kind is not None and kind.name not in ("Workload", "Replica"):
        hint = f"`holdfast describe {kind.name.lower()} NAME` shows details"
        raise usage_error(f"{kind.name.lower()}: only workloads and slots can be explained", hint)
    name = words[1] if len(words) == 2 else rest if kind is not None else words[0]
    if kind is None:
        kind = BY_NAME["Replica" if name.count("/") > 1 else "Workload"]
    found = object_ref(kind, name, context)
    if kind.name == "Replica" and not _is_slot(found.name):
        raise usage_error(f"{name}: not a slot name", "[TENANT/]WORKLOAD/REGION/ORDINAL, for example web/eu/0")
    return found


def _is_slot(name: str) -> bool:
    return name.count("/") == 2 and name.rpartition("/")[2].isdigit()


def _workload(options: GlobalOptions, context: CliContext, one: ObjectRef, output: OutputFormat) -> None:
    name = f"{one.tenant}/{one.name}"
    found = _object(connect(options, context), one)
    where = region_clients(options, context)
    waits = ask_regions(where, lambda client: client.queue(workload=name), options.verbose)
    past = ask_regions(where, lambda client: client.decisions(workload=name, limit=LATELY), options.verbose)
    queued = [request for answer in waits.values() for request in answer.get("items") or ()]
    decided = [{"region": region, **item} for region, answer in past.items() for item in answer.get("items") or ()]
    decided = sorted(decided, key=lambda item: str(item.get("at")), reverse=True)[:LATELY]
    if printer.print_structured({"workload": found, "queue": queued, "decisions": decided}, output):
        return
    if found is None and not queued and not decided:
        hint = "`holdfast get workloads` lists them; decisions are kept for the retention time of a region"
        raise CliError(f"no workload, request or decision named {name}", hint=hint)
    printer.print_data("\n".join(explanation.explain_workload(name, found, queued, decided)))
    printer.print_data("\n".join(_next(name, queued, decided)))


def _object(client: ApiClient, one: ObjectRef) -> Mapping[str, Any] | None:
    """Return the object; None if it does not exist or the server does not store its kind."""
    try:
        return client.get(one.kind.plural, one.name, tenant=one.tenant)
    except Exception as error:
        if is_not_found(error) or getattr(getattr(error, "problem", None), "code", "") == "no-such-route":
            return None
        raise


def _next(name: str, queued: list[Any], decided: list[Any]) -> list[str]:
    lines = [f"  `holdfast decisions --workload {name}` shows all decisions about it"]
    went = [place["slot"] for item in decided for place in item.get("placements") or ()]
    if went:
        tenant = name.partition("/")[0]
        lines.append(f"  `holdfast explain {tenant}/{went[0]}` explains why a slot is on its node")
    if queued:
        lines.append(f"  `holdfast queue --region {queued[0].get('region')}` shows the requests before it")
    return ["", printer.paint("Next", "bold"), *lines]


def _slot(options: GlobalOptions, context: CliContext, one: ObjectRef, output: OutputFormat) -> None:
    name = f"{one.tenant}/{one.name}"
    region = one.name.split("/")[1]
    ((_, client),) = region_clients(options, context, region).items()
    replica = _object(client, one)
    items = client.decisions(slot=name, limit=1)["items"]
    decided = items[0] if items else None
    if printer.print_structured({"slot": replica, "decision": decided}, output):
        return
    if replica is None and decided is None:
        hint = f"`holdfast get replicas --region {region} --tenant {one.tenant}` lists them"
        raise CliError(f"no slot or decision named {name}", hint=hint)
    printer.print_data("\n".join(explanation.explain_slot(name, replica, decided)))
    if replica is not None and not (replica.get("status") or {}).get("node"):
        workload = name.rsplit("/", 2)[0]
        printer.print_data(f"\n  it waits: `holdfast explain {workload}` explains why")
