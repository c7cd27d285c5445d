"""The work of `get`: list objects, show them by name, or watch them. Separate from its options (`get`), so that the
fast path in `main` needs no typer.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from holdfast.api.kinds import SOFT_KINDS, Column, ResourceKind
from holdfast.cli.connect import ApiClient, connect, is_not_found, to_cli_error
from holdfast.cli.context import resolve
from holdfast.cli.errors import CliExitCode, print_error, usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import field_path, printer
from holdfast.cli.targets import ObjectRef, object_label, region_for, resolve_objects


class ListFormat(StrEnum):
    """How objects are printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class ReadOption(StrEnum):
    """How fresh a read is."""

    ANY = "any"
    LINEAR = "linear"


class GetQuery(NamedTuple):
    """Arguments and options of `get`."""

    words: Sequence[str]
    output: ListFormat = ListFormat.TABLE
    selector: str = ""
    all_tenants: bool = False
    sort_by: str = ""
    watch: bool = False
    read: ReadOption = ReadOption.ANY


def get(options: GlobalOptions, asked: GetQuery) -> int:
    """Print the requested objects."""
    context = resolve(options)
    if asked.sort_by:
        field_path.path_steps(asked.sort_by)
    kind, names = resolve_objects(asked.words, context)
    tenant = "" if asked.all_tenants or not kind.tenanted else context.tenant
    if names and (asked.selector or asked.all_tenants):
        raise usage_error("use either names or --selector and --all-tenants")
    if kind.plural in SOFT_KINDS and (asked.watch or asked.selector):
        raise usage_error(f"{kind.plural} have neither labels nor a watch", "list them again; --sort-by sorts them")
    client = connect(options, context, region=region_for(kind, context, options.region))
    if asked.watch:
        wanted = {(one.tenant, one.name) for one in names}
        WatchPrinter(client, kind, wanted, asked.output, tenants=not tenant).run(tenant or "*", asked.selector)
        return CliExitCode.DONE
    ending = CliExitCode.DONE
    if names:
        found, ending = _by_name(client, names, asked.read)
    else:
        found = list(
            client.list(kind.plural, tenant=tenant or "*", selector=asked.selector, read=asked.read.value).items
        )
    if asked.sort_by:
        found = sorted(found, key=lambda one: field_path.sort_key(field_path.value_at(one, asked.sort_by)))
    _print(kind, found, asked.output, single=len(names) == 1, tenants=not tenant)
    if not found and not names:
        print_note(f"no {kind.plural} found{_where(tenant, asked.selector)}")
    return ending


def _where(tenant: str, selector: str) -> str:
    said = [f"in tenant {tenant}" if tenant else "", f"with {selector}" if selector else ""]
    return "".join(f" {one}" for one in said if one)


def _by_name(
    client: ApiClient, names: Sequence[ObjectRef], read: ReadOption
) -> tuple[list[dict[str, Any]], CliExitCode]:
    """Return the objects that exist; print an error for each other one."""
    found, ending = [], CliExitCode.DONE
    for one in names:
        try:
            found.append(client.get(one.kind.plural, one.name, tenant=one.tenant, read=read.value))
        except Exception as error:
            if not is_not_found(error):
                raise
            print_error(to_cli_error(error, what=str(one)))
            ending = CliExitCode.REFUSED
    return found, ending


def _print(
    kind: ResourceKind, found: Sequence[dict[str, Any]], output: ListFormat, *, single: bool, tenants: bool
) -> None:
    if output is ListFormat.NAME:
        for one in found:
            printer.print_data(object_label(one))
    elif output in (ListFormat.JSON, ListFormat.YAML):
        whole: Any = found[0] if single and found else {"apiVersion": "holdfast/v1", "kind": "List", "items": found}
        if found or not single:
            printer.print_data(printer.as_json(whole) if output is ListFormat.JSON else printer.as_yaml(whole))
    elif found:
        headings, rows = _rows(kind, found, wide=output is ListFormat.WIDE, tenants=tenants)
        printer.print_data(printer.table(headings, rows))


#: Additional columns of `-o wide`.
WIDE_COLUMNS = (
    Column("LABELS", "metadata.labels", "map"),
    Column("GENERATION", "metadata.generation"),
    Column("REVISION", "metadata.revision"),
)


def _rows(
    kind: ResourceKind, found: Sequence[dict[str, Any]], *, wide: bool, tenants: bool
) -> tuple[list[str], list[list[str]]]:
    columns = [
        one for one in (*kind.columns, *(WIDE_COLUMNS if wide else ())) if tenants or one.path != "metadata.tenant"
    ]
    rows = [
        [printer.format_cell(field_path.value_at(one, column.path), column.hint) for column in columns] for one in found
    ]
    return [column.title for column in columns], rows


class WatchPrinter:
    """Prints the current objects, then every change."""

    def __init__(
        self, client: ApiClient, kind: ResourceKind, wanted: set[tuple[str, str]], output: ListFormat, *, tenants: bool
    ) -> None:
        self._client, self._kind, self._wanted, self._output, self._tenants = client, kind, wanted, output, tenants
        self._columns = printer.TextTable(())

    def run(self, tenant: str, selector: str) -> None:
        """Print until interrupted."""
        listed = self._client.list(self._kind.plural, tenant=tenant, selector=selector)
        there = [one for one in listed.items if self._means(one)]
        if self._output in (ListFormat.TABLE, ListFormat.WIDE):
            headings, rows = self._rows(there)
            self._columns = printer.TextTable(["CHANGE  ", *headings], [["", *row] for row in rows])
            printer.print_data("\n".join(self._columns.lines()))
        else:
            for one in there:
                self._print("ADDED", one)
        printer.flush()
        for event in self._client.watch(self._kind.plural, tenant=tenant, selector=selector, since=listed.token):
            if event.type != "BOOKMARK" and self._means(event.object):
                self._print(event.type, event.object)
                printer.flush()

    def _means(self, document: dict[str, Any]) -> bool:
        meta = document.get("metadata") or {}
        return not self._wanted or (meta.get("tenant", ""), meta.get("name")) in self._wanted

    def _rows(self, found: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
        return _rows(self._kind, found, wide=self._output is ListFormat.WIDE, tenants=self._tenants)

    def _print(self, change: str, document: dict[str, Any]) -> None:
        event = {"type": change, "object": document}
        if self._output in (ListFormat.TABLE, ListFormat.WIDE):
            printer.print_data(self._columns.line([change.lower(), *self._rows([document])[1][0]]))
        elif self._output is ListFormat.NAME:
            printer.print_data(f"{change.lower()} {object_label(document)}")
        elif self._output is ListFormat.JSON:
            printer.print_data(printer.as_json(event, compact=True))
        else:
            printer.print_data("---\n" + printer.as_yaml(event))
