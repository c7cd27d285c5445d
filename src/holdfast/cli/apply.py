"""`holdfast apply`: create or change objects from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from holdfast.cli import checking, conditions, paths, shown
from holdfast.cli.commands import Files, Recursive, an_app, command
from holdfast.cli.connect import Client, as_map, as_trouble, connect
from holdfast.cli.contexts import Context, resolve
from holdfast.cli.files import Source, read_all
from holdfast.cli.nouns import find, named_in
from holdfast.cli.options import Options, note
from holdfast.cli.troubles import Ending, from_problem, misused, tell

app = an_app()

DryRun = Annotated[bool, typer.Option("--dry-run", help="Let the server judge everything, and change nothing.")]
Unchecked = Annotated[
    bool, typer.Option("--unchecked", help="Let only the server check fields: for one newer than this program.")
]


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
        checking.refuse_faulty(sources)
    endings = [
        _sent(connect(options, context, region=region), group, dry_run)
        for region, group in by_region(sources, context, options.region)
    ]
    return max(endings, default=Ending.DONE)


def with_tenant(source: Source, context: Context) -> Source:
    """The document with the context's tenant, where it needs one and names none. Raises `Trouble` without one."""
    kind = find(source.document["kind"])
    meta = source.document["metadata"]
    if kind is None or not kind.tenanted or meta.get("tenant"):
        return source
    if not context.tenant:
        said = f"{source.where()}: {kind.name.lower()}/{meta['name']}: which tenant's?"
        raise misused(said, "write metadata.tenant, or give --tenant NAME")
    return Source({**source.document, "metadata": {**meta, "tenant": context.tenant}}, source.loaded)


def by_region(sources: Sequence[Source], context: Context, asked: str) -> list[tuple[str, list[Source]]]:
    """Which server gets what: what only a region keeps goes there, everything else to the platform.

    `asked` is what a flag said. Where nothing is for a region somebody meant something else by it, and is told.
    """
    here: list[Source] = []
    there: list[Source] = []
    for source in sources:
        kind = find(source.document["kind"])
        (there if kind is not None and "platform" not in kind.ledger else here).append(source)
    if asked and not there and here:
        first = here[0]
        said = f"--region {asked}: {named_in(first.document)} is kept by the platform and not in regions"
        raise misused(f"{first.where()}: {said}", "leave --region out; where a workload may be, spec.placement says")
    return [(region, group) for region, group in (("", here), (asked or context.region, there)) if group]


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
    for condition in paths.conditions_of(found):
        if condition.get("type") in ("Fits", "OnTime") and condition.get("status") == "false":
            note(f"warning: {what}: {conditions.brief(condition)}")


def _say(source: Source, one: Any, dry_run: bool) -> Ending:
    what = named_in(source.document)
    if one.problem is None:
        shown.say(f"{what} {one.outcome}{' (dry run)' if dry_run else ''}")
        _warn(what, one.object)
        if source.document["kind"] == "SchedulerPolicy" and one.outcome == "created" and not dry_run:
            revision = one.object["metadata"]["revision"]
            note(f"{what}: {revision} is valid nowhere yet: `holdfast policy activate {revision} --region NAME`")
        return Ending.DONE
    trouble = from_problem(as_map(one.problem), what, source.where)
    tell(trouble)
    return trouble.ending
