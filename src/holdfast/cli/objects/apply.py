"""`holdfast apply`: create or change objects from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from holdfast.cli import documents
from holdfast.cli.command import FilesOption, RecursiveOption, UncheckedOption, command, make_app
from holdfast.cli.connect import ApiClient, connect, problem_map, to_cli_error
from holdfast.cli.context import resolve
from holdfast.cli.documents import SourceDocument, by_region, read_documents, with_tenant
from holdfast.cli.errors import CliExitCode, from_problem, print_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import conditions, field_path, printer
from holdfast.cli.targets import object_label

app = make_app()

DryRun = Annotated[bool, typer.Option("--dry-run", help="Let the server check everything, and change nothing.")]


@command(app)
def apply(
    options: GlobalOptions,
    filename: FilesOption,
    recursive: RecursiveOption = False,
    dry_run: DryRun = False,
    unchecked: UncheckedOption = False,
) -> int:
    """Create or change objects from files. Applying the same files again changes nothing.

    Objects that others refer to are sent first. A document that cannot be read stops the command before anything is
    sent. A document that the server refuses does not stop the others.
    """
    context = resolve(options)
    sources = [with_tenant(source, context) for source in read_documents(filename, recursive=recursive)]
    if not unchecked:
        documents.require_valid(sources)
    endings = [
        _sent(connect(options, context, region=region), group, dry_run)
        for region, group in by_region(sources, context, options.region)
    ]
    return max(endings, default=CliExitCode.DONE)


def _sent(client: ApiClient, sources: Sequence[SourceDocument], dry_run: bool) -> CliExitCode:
    """Send the documents and print the result of each."""
    try:
        done, broken = client.batch([source.document for source in sources], dry_run=dry_run), None
    except Exception as error:
        done, broken = getattr(error, "done", ()), error
    ending = CliExitCode.DONE
    for source, one in zip(sources, done, strict=False):
        ending = max(ending, _say(source, one, dry_run))
    if broken is None:
        return ending
    left = [object_label(source.document) for source in sources[len(done) :]]
    what = f"{left[0]} and {len(left) - 1} more" if len(left) > 1 else "".join(left)
    trouble = to_cli_error(broken, what=what)
    print_error(trouble)
    return max(ending, trouble.ending)


def _warn(what: str, found: Mapping[str, Any]) -> None:
    """Print a warning for a workload that is accepted but fits nowhere, or is too late: nodes may be added, or lateness
    accepted."""
    for condition in field_path.conditions_of(found):
        if condition.get("type") in ("Fits", "OnTime") and condition.get("status") == "false":
            print_note(f"warning: {what}: {conditions.format_condition(condition)}")


def _say(source: SourceDocument, one: Any, dry_run: bool) -> CliExitCode:
    what = object_label(source.document)
    if one.problem is None:
        printer.print_data(f"{what} {one.outcome}{' (dry run)' if dry_run else ''}")
        _warn(what, one.object)
        if source.document["kind"] == "SchedulerPolicy" and one.outcome == "created" and not dry_run:
            revision = one.object["metadata"]["revision"]
            print_note(f"{what}: {revision} is not valid yet: `holdfast policy activate {revision} --region NAME`")
        return CliExitCode.DONE
    trouble = from_problem(problem_map(one.problem), what, source.where)
    print_error(trouble)
    return trouble.ending
