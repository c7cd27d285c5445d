"""`holdfast explain`: why a workload waits, or why a slot went where it is. Elsewhere the word means help for fields;
here that is `schema`. What it says is in `output.explanation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.api.kinds import BY_NAME, find_kind
from holdfast.cli import region_requests
from holdfast.cli.command import OutputOption, command, complete_workloads, make_app
from holdfast.cli.connect import ApiClient, connect, is_not_found
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
#: So many of the newest decisions are told with a workload.
LATELY = 5


@command(app)
def explain(options: GlobalOptions, words: Words, output: OutputOption = OutputFormat.TEXT) -> None:
    """Tell why a workload waits, who can act and what would change it; or when, why and by whom a slot was placed.

    What was decided is kept for a while after a workload is gone.
    """
    context = resolve(options)
    one = _meant(words, context)
    if one.kind.name == "Replica":
        _slot(options, context, one, output)
    else:
        _workload(options, context, one, output)


def _meant(words: list[str], context: CliContext) -> ObjectRef:
    """The workload or the slot, of which the kind may be said before its name."""
    first, slash, rest = words[0].partition("/")
    if len(words) == 1 and not slash and find_kind(first.partition(".")[0]) is not None:
        raise usage_error(f"{first}: the fields of a kind are explained by schema", f"`holdfast schema {first}`")
    kind = find_kind(first) if len(words) == 2 or slash else None
    if len(words) > 2 or (len(words) == 2 and kind is None):
        raise usage_error("which one? give one workload, or one slot", "`holdfast explain shop/web`")
    if kind is not None and kind.name not in ("Workload", "Replica"):
        hint = f"`holdfast describe {kind.name.lower()} NAME` tells about it"
        raise usage_error(f"{kind.name.lower()}: workloads and slots are explained", hint)
    name = words[1] if len(words) == 2 else rest if kind is not None else words[0]
    if kind is None:
        kind = BY_NAME["Replica" if name.count("/") > 1 else "Workload"]
    found = object_ref(kind, name, context)
    if kind.name == "Replica" and not _is_slot(found.name):
        raise usage_error(f"{name}: not the name of a slot", "[TENANT/]WORKLOAD/REGION/ORDINAL, such as web/eu/0")
    return found


def _is_slot(name: str) -> bool:
    return name.count("/") == 2 and name.rpartition("/")[2].isdigit()


def _workload(options: GlobalOptions, context: CliContext, one: ObjectRef, output: OutputFormat) -> None:
    name = f"{one.tenant}/{one.name}"
    found = _object(connect(options, context), one)
    where = region_requests.region_clients(options, context)
    waits = region_requests.ask_regions(where, lambda client: client.queue(workload=name), options.verbose)
    past = region_requests.ask_regions(
        where, lambda client: client.decisions(workload=name, limit=LATELY), options.verbose
    )
    queued = [request for answer in waits.values() for request in answer.get("items") or ()]
    decided = [{"region": region, **item} for region, answer in past.items() for item in answer.get("items") or ()]
    decided = sorted(decided, key=lambda item: str(item.get("at")), reverse=True)[:LATELY]
    if printer.print_structured({"workload": found, "queue": queued, "decisions": decided}, output):
        return
    if found is None and not queued and not decided:
        hint = "`holdfast get workloads` shows which there are; decisions are kept for the retention time of a region"
        raise CliError(f"nothing is known of workload {name}", hint=hint)
    printer.print_data("\n".join(explanation.explain_workload(name, found, queued, decided)))
    printer.print_data("\n".join(_next(name, queued, decided)))


def _object(client: ApiClient, one: ObjectRef) -> Mapping[str, Any] | None:
    """The object; None: there is none, or the server that is asked does not keep such."""
    try:
        return client.get(one.kind.plural, one.name, tenant=one.tenant)
    except Exception as error:
        if is_not_found(error) or getattr(getattr(error, "problem", None), "code", "") == "no-such-route":
            return None
        raise


def _next(name: str, queued: list[Any], decided: list[Any]) -> list[str]:
    lines = [f"  `holdfast decisions --workload {name}` shows everything that was decided for it"]
    went = [place["slot"] for item in decided for place in item.get("placements") or ()]
    if went:
        tenant = name.partition("/")[0]
        lines.append(f"  `holdfast explain {tenant}/{went[0]}` tells why a slot went where it is")
    if queued:
        lines.append(f"  `holdfast queue --region {queued[0].get('region')}` shows who is looked at before it")
    return ["", printer.paint("Next", "bold"), *lines]


def _slot(options: GlobalOptions, context: CliContext, one: ObjectRef, output: OutputFormat) -> None:
    name = f"{one.tenant}/{one.name}"
    region = one.name.split("/")[1]
    ((_, client),) = region_requests.region_clients(options, context, region).items()
    replica = _object(client, one)
    items = client.decisions(slot=name, limit=1)["items"]
    decided = items[0] if items else None
    if printer.print_structured({"slot": replica, "decision": decided}, output):
        return
    if replica is None and decided is None:
        hint = f"`holdfast get replicas --region {region} --tenant {one.tenant}` shows which there are"
        raise CliError(f"nothing is known of slot {name}", hint=hint)
    printer.print_data("\n".join(explanation.explain_slot(name, replica, decided)))
    if replica is not None and not (replica.get("status") or {}).get("node"):
        workload = name.rsplit("/", 2)[0]
        printer.print_data(f"\n  it waits: `holdfast explain {workload}` tells why")
