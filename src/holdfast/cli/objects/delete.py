"""`holdfast delete`: delete objects."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast.cli.command import RecursiveOption, command, complete_words, make_app
from holdfast.cli.connect import ApiClient, connect, explain_errors, is_not_found, to_cli_error
from holdfast.cli.context import resolve
from holdfast.cli.errors import CliExitCode, print_error, usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.targets import ObjectRef, region_for, resolve_kind, resolve_objects

app = make_app()

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KIND NAME...]", help="A kind and names, or KIND/NAME.", autocompletion=complete_words),
]
Files = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", metavar="FILE|DIR|-", help="The objects in a file, a folder, or stdin (-)."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Delete several objects without confirmation.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until the objects are deleted.")]
IgnoreNotFound = Annotated[bool, typer.Option("--ignore-not-found", help="Missing objects are not an error.")]


@command(app)
def delete(
    options: GlobalOptions,
    words: Words = None,
    filename: Files = None,
    recursive: RecursiveOption = False,
    yes: Yes = False,
    wait: Wait = False,
    ignore_not_found: IgnoreNotFound = False,
) -> int:
    """Delete objects. A workload first stops in every region; `--wait` waits for that."""
    context = resolve(options)
    if bool(words) == bool(filename):
        raise usage_error("name objects, or files with -f", "`holdfast delete workload NAME`")
    if words:
        _, objects = resolve_objects(words, context)
        if not objects:
            raise usage_error(f"{words[0]}: a name is required", f"`holdfast get {words[0]}` lists them")
    else:
        from holdfast.cli.documents import read_documents, with_tenant

        # In reverse order of `apply`: objects that refer to others are deleted first.
        sources = [
            with_tenant(source, context) for source in reversed(read_documents(filename or [], recursive=recursive))
        ]
        metas = [(resolve_kind(source.document["kind"]), source.document["metadata"]) for source in sources]
        objects = [ObjectRef(kind, meta.get("tenant") or "", meta["name"]) for kind, meta in metas]
    # Before anything is deleted: an unsuitable --region is a usage error, and nothing was sent.
    meant = [(one, region_for(one.kind, context, options.region)) for one in objects]
    if not _agreed(objects, yes):
        return CliExitCode.REFUSED
    endings = [_removed(connect(options, context, region=region), one, ignore_not_found) for one, region in meant]
    for (one, region), ending in zip(meant, endings, strict=True):
        if wait and ending is CliExitCode.DONE:  # A refused deletion would never end.
            _gone(connect(options, context, region=region), one, options)
    return max(endings)


def _agreed(objects: Sequence[ObjectRef], yes: bool) -> bool:
    """Return whether the deletion of several objects is confirmed."""
    if yes or len(objects) < 2:
        return True
    if not sys.stdin.isatty():
        raise usage_error(f"{len(objects)} objects would be deleted", "confirm with --yes")
    print_note("\n".join(map(str, objects)))
    return typer.confirm(f"delete these {len(objects)}?", err=True)


def _removed(client: ApiClient, one: ObjectRef, ignore_not_found: bool) -> CliExitCode:
    try:
        done = client.delete(one.kind.plural, one.name, tenant=one.tenant)
    except Exception as error:
        if is_not_found(error) and ignore_not_found:
            return CliExitCode.DONE
        trouble = to_cli_error(error, what=str(one))
        print_error(trouble)
        return trouble.ending
    printer.print_data(f"{one} {done.outcome}")
    return CliExitCode.DONE


def _gone(client: ApiClient, one: ObjectRef, options: GlobalOptions) -> None:
    with explain_errors(options, one):
        client.wait_for(one.kind.plural, one.name, lambda found: found is None, options.timeout_ms, tenant=one.tenant)
    print_note(f"{one} was deleted")
