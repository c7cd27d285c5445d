"""`holdfast apply`: create or change objects from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from holdfast.cli import documents
from holdfast.cli.command import Files, Recursive, Unchecked, an_app, command
from holdfast.cli.connect import Client, as_map, as_trouble, connect
from holdfast.cli.context import resolve
from holdfast.cli.documents import Source, by_region, read_all, with_tenant
from holdfast.cli.errors import Ending, from_problem, tell
from holdfast.cli.options import Options, note
from holdfast.cli.output import conditions, field_path, printer
from holdfast.cli.targets import named_in

app = an_app()

DryRun = Annotated[bool, typer.Option("--dry-run", help="Let the server judge everything, and change nothing.")]


@command(app)
def apply(
    options: Options,
    filename: Files,
    recursive: Recursive = False,
    dry_run: DryRun = False,
    unchecked: Unchecked = False,
) -> int:
    """Create or change objects from files; the same files twice change nothing.

    What others refer to is sent first. A document that cannot be read stops all of them before anything is sent; one
    that the server refuses stops only itself.
    """
    context = resolve(options)
    sources = [with_tenant(source, context) for source in read_all(filename, recursive=recursive)]
    if not unchecked:
        documents.refuse_faulty(sources)
    endings = [
        _sent(connect(options, context, region=region), group, dry_run)
        for region, group in by_region(sources, context, options.region)
    ]
    return max(endings, default=Ending.DONE)


def _sent(client: Client, sources: Sequence[Source], dry_run: bool) -> Ending:
    """Send them all; say of each what became of it."""
    try:
        done, broken = client.batch([source.document for source in sources], dry_run=dry_run), None
    except Exception as error:
        done, broken = getattr(error, "done", ()), error
    ending = Ending.DONE
    for source, one in zip(sources, done, strict=False):
        ending = max(ending, _say(source, one, dry_run))
    if broken is None:
        return ending
    left = [named_in(source.document) for source in sources[len(done) :]]
    what = f"{left[0]} and {len(left) - 1} more" if len(left) > 1 else "".join(left)
    trouble = as_trouble(broken, what=what)
    tell(trouble)
    return max(ending, trouble.ending)


def _warn(what: str, found: Mapping[str, Any]) -> None:
    """Say at once what is known to be in vain or too late: it is taken, since nodes may come, and late may do."""
    for condition in field_path.conditions_of(found):
        if condition.get("type") in ("Fits", "OnTime") and condition.get("status") == "false":
            note(f"warning: {what}: {conditions.brief(condition)}")


def _say(source: Source, one: Any, dry_run: bool) -> Ending:
    what = named_in(source.document)
    if one.problem is None:
        printer.say(f"{what} {one.outcome}{' (dry run)' if dry_run else ''}")
        _warn(what, one.object)
        if source.document["kind"] == "SchedulerPolicy" and one.outcome == "created" and not dry_run:
            revision = one.object["metadata"]["revision"]
            note(f"{what}: {revision} is valid nowhere yet: `holdfast policy activate {revision} --region NAME`")
        return Ending.DONE
    trouble = from_problem(as_map(one.problem), what, source.where)
    tell(trouble)
    return trouble.ending
