"""`holdfast diff`: what apply would change. Exit codes as of diff(1): 0 no change, 1 changes, 2 error."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from holdfast.api.kinds import find_kind
from holdfast.cli import documents
from holdfast.cli.command import FilesOption, RecursiveOption, UncheckedOption, command, make_app
from holdfast.cli.connect import ApiClient, connect, is_not_found, to_cli_error
from holdfast.cli.context import resolve
from holdfast.cli.documents import SourceDocument, by_region, read_documents, with_tenant
from holdfast.cli.errors import CliError, print_error
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import printer
from holdfast.cli.targets import object_label

app = make_app()

SAME, DIFFERENT, FAILED = 0, 1, 2
#: Metadata that a file does not contain.
_OWN = ("uid", "generation", "revision", "created", "createdBy", "finalizers", "deletion", "owner")


@command(app)
def diff(
    options: GlobalOptions,
    filename: FilesOption,
    recursive: RecursiveOption = False,
    unchecked: UncheckedOption = False,
) -> int:
    """Show what apply would change, as the server decides it. Exit code 0: no change; 1: changes; 2: error."""
    try:
        context = resolve(options)
        sources = [with_tenant(source, context) for source in read_documents(filename, recursive=recursive)]
        if not unchecked:
            documents.require_valid(sources)
        ending = SAME
        for region, group in by_region(sources, context, options.region):
            client = connect(options, context, region=region)
            ending = max(ending, *(_shown(client, source) for source in group))
    except CliError as trouble:
        print_error(trouble)
        ending = FAILED
    return ending


def _shown(client: ApiClient, source: SourceDocument) -> int:
    """Print the differences of one document."""
    what = object_label(source.document)
    try:
        before = _present(client, source)
        after = client.put(source.document, dry_run=True).object
    except Exception as error:
        print_error(to_cli_error(error, what=what, where=source.where))
        return FAILED
    lines = list(difflib.unified_diff(_lines(before), _lines(after), f"now: {what}", f"then: {what}", lineterm=""))
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "dim"}.get(line[:1])
        printer.print_data(printer.paint(line, colour) if colour else line)
    return DIFFERENT if lines else SAME


def _present(client: ApiClient, source: SourceDocument) -> dict[str, Any] | None:
    document, kind = source.document, find_kind(source.document["kind"])
    plural = kind.plural if kind is not None else document["kind"]
    meta = document["metadata"]
    try:
        return dict(client.get(plural, meta["name"], tenant=meta.get("tenant", "")))
    except Exception as error:
        if is_not_found(error):
            return None
        raise


def _lines(document: Mapping[str, Any] | None) -> list[str]:
    """Return the part of an object that users write, as YAML."""
    if document is None:
        return []
    kept = {key: value for key, value in document.items() if key != "status"}
    kept["metadata"] = {key: value for key, value in document["metadata"].items() if key not in _OWN and value}
    return printer.as_yaml(kept).splitlines()
