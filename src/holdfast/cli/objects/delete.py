"""`holdfast delete`: remove objects."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast.cli.command import Recursive, an_app, command, known_words
from holdfast.cli.connect import Client, as_trouble, connect, is_missing
from holdfast.cli.context import resolve
from holdfast.cli.errors import Ending, misused, tell
from holdfast.cli.options import Options, note
from holdfast.cli.output import printer
from holdfast.cli.targets import Named, region_for, the_kind, the_objects

app = an_app()

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KIND NAME...]", help="A kind and names, or KIND/NAME.", autocompletion=known_words),
]
Files = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", metavar="FILE|DIR|-", help="The objects of a file, a folder, or - for stdin."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before several objects are removed.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until they are gone.")]
IgnoreNotFound = Annotated[bool, typer.Option("--ignore-not-found", help="What is not there is as it should be.")]


@command(app)
def delete(
    options: Options,
    words: Words = None,
    filename: Files = None,
    recursive: Recursive = False,
    yes: Yes = False,
    wait: Wait = False,
    ignore_not_found: IgnoreNotFound = False,
) -> int:
    """Remove objects. A workload ends everywhere first; `--wait` waits for that."""
    context = resolve(options)
    if bool(words) == bool(filename):
        raise misused("name objects, or files with -f", "`holdfast delete workload NAME`")
    if words:
        _, objects = the_objects(words, context)
        if not objects:
            raise misused(f"which {words[0]}? give a name", f"`holdfast get {words[0]}` lists them")
    else:
        from holdfast.cli.documents import read_all, with_tenant

        # The other way round: what refers to others goes before them.
        sources = [with_tenant(source, context) for source in reversed(read_all(filename or [], recursive=recursive))]
        metas = [(the_kind(source.document["kind"]), source.document["metadata"]) for source in sources]
        objects = [Named(kind, meta.get("tenant") or "", meta["name"]) for kind, meta in metas]
    # Before anything is removed: a region that does not fit one of them is wrong usage, and nothing was sent.
    meant = [(one, region_for(one.kind, context, options.region)) for one in objects]
    if not _agreed(objects, yes):
        return Ending.REFUSED
    endings = [_removed(connect(options, context, region=region), one, ignore_not_found) for one, region in meant]
    for (one, region), ending in zip(meant, endings, strict=True):
        if wait and ending is Ending.DONE:  # what was refused does not end, however long one waits
            _gone(connect(options, context, region=region), one, options)
    return max(endings)


def _agreed(objects: Sequence[Named], yes: bool) -> bool:
    """Several objects are removed only by somebody who has said so."""
    if yes or len(objects) < 2:
        return True
    if not sys.stdin.isatty():
        raise misused(f"{len(objects)} objects would be removed", "say so with --yes")
    note("\n".join(map(str, objects)))
    return typer.confirm(f"remove these {len(objects)}?", err=True)


def _removed(client: Client, one: Named, ignore_not_found: bool) -> Ending:
    try:
        done = client.delete(one.kind.plural, one.name, tenant=one.tenant)
    except Exception as error:
        if is_missing(error) and ignore_not_found:
            return Ending.DONE
        trouble = as_trouble(error, what=str(one))
        tell(trouble)
        return trouble.ending
    printer.say(f"{one} {done.outcome}")
    return Ending.DONE


def _gone(client: Client, one: Named, options: Options) -> None:
    try:
        client.wait_for(one.kind.plural, one.name, lambda found: found is None, options.timeout_ms, tenant=one.tenant)
    except Exception as error:
        raise as_trouble(error, options.verbose, what=str(one)) from None
    note(f"{one} is gone")
