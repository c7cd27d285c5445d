"""Requests to regions: to the named one, or to every region that has joined the platform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.cli.connect import ApiClient, connect, to_cli_error
from holdfast.cli.context import CliContext
from holdfast.cli.options import GlobalOptions, print_note

RegionQuery = Callable[[ApiClient], Mapping[str, Any]]


def region_clients(options: GlobalOptions, context: CliContext, named: str = "") -> dict[str, ApiClient]:
    """Return clients of the selected regions by name. `named` is the region in a slot's name.

    A region's own server is used directly.
    """
    region = options.region or ("" if named else context.region)
    if region:
        return {region: connect(options, context, region=region)}
    client = connect(options, context)
    status = client.status()
    kind, _, name = str(status.get("ledger", "")).partition("/")
    if kind == "region":
        return {name: client}
    if named:
        return {named: client.region(named)}
    joined = [str(one["name"]) for one in status.get("regions") or () if one.get("joined")]
    return {name: client.region(name) for name in joined}


def ask_regions(asked: Mapping[str, ApiClient], ask: RegionQuery, verbose: int = 0) -> dict[str, Mapping[str, Any]]:
    """Return each region's answer. A failed region is noted on stderr and does not hide the others."""
    found: dict[str, Mapping[str, Any]] = {}
    failed: Exception | None = None
    for name, client in asked.items():
        try:
            found[name] = ask(client)
        except Exception as error:
            failed = error
            if len(asked) > 1:
                print_note(f"region {name} is missing: {to_cli_error(error, verbose)}")
    if failed is not None and not found:
        raise failed
    return found
