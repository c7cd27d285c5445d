"""Errors for users: what happened, to what, why; then `hint:` and the next command. The table of exit codes is here
too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any


class CliExitCode(IntEnum):
    """Exit codes. docs/reference/cli.md has the same table."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    DENIED = 3
    UNREACHABLE = 4
    UNKNOWN = 5
    INTERRUPTED = 130


#: Statuses that do not judge the request: the same one may succeed in a moment.
UNAVAILABLE_STATUSES = (429, 502, 503, 504)
#: From a JSON pointer to its file and line.
FieldLocator = Callable[[str], str]


class CliError(Exception):
    """A message for the user, with the exit code. `lines` are further facts, one each."""

    def __init__(
        self, message: str, *, ending: CliExitCode = CliExitCode.REFUSED, hint: str = "", lines: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.ending = ending
        self.hint = hint
        self.lines = tuple(lines)


def usage_error(message: str, hint: str = "", lines: Sequence[str] = ()) -> CliError:
    """Return the error of a wrong command or file; nothing was sent."""
    return CliError(message, ending=CliExitCode.USAGE, hint=hint, lines=lines)


def print_error(trouble: CliError) -> None:
    from holdfast.cli.output.printer import escape_controls
    from holdfast.core.model.objects.principals import redact_secrets

    words = [f"error: {trouble}", *(f"  {line}" for line in trouble.lines)]
    if trouble.hint:
        words.append(f"hint: {trouble.hint}")
    sys.stdout.flush()
    print(*(escape_controls(redact_secrets(word)) for word in words), sep="\n", file=sys.stderr)


def exit_code_of(problem: Mapping[str, Any]) -> CliExitCode:
    status = problem.get("status")
    if status in (401, 403):
        return CliExitCode.DENIED
    if problem.get("code") == "outcome-unknown":
        return CliExitCode.UNKNOWN
    return CliExitCode.UNREACHABLE if status in UNAVAILABLE_STATUSES else CliExitCode.REFUSED


def from_problem(problem: Mapping[str, Any], what: str = "", where: FieldLocator | None = None) -> CliError:
    """Return a server's problem as an error. `where` maps a field's pointer to file and line, if files were sent."""
    code = str(problem.get("code", ""))
    said = str(problem.get("detail") or problem.get("title") or "refused")
    lines = [_fault(fault, where) for fault in problem.get("errors") or ()]
    message = f"{what}: {said}" if what and what not in said else said
    hint = _hint(problem, code, what)
    ending = exit_code_of(problem)
    return CliError(f"{message} ({code})" if code else message, ending=ending, hint=hint, lines=lines)


def _hint(problem: Mapping[str, Any], code: str, what: str) -> str:
    """Return the next command, with the names of the object in it."""
    facts = problem.get("facts") or {}
    if code == "not-found":
        return _listing(str(facts.get("kind") or what.partition("/")[0]), what)
    hint = PROBLEM_HINTS.get(code) or str(problem.get("hint") or "")
    kind, _, name = what.partition("/")
    if code == "no-such-route" and "--region" in str(problem.get("detail")):
        return "`holdfast get regions` lists the regions"
    if code == "in-use" and kind == "quota":
        return "apply it with `hard: {}`, wait until `holdfast quota` shows no grants, then delete it"
    return hint.replace("KIND", kind).replace("NAME", name) if what else hint


def _listing(word: str, what: str) -> str:
    """Return the command that lists the objects of a kind."""
    from holdfast.api.kinds import find_kind

    kind = find_kind(word)
    if kind is None:
        return ""
    tenant = f" --tenant {what.split('/')[1]}" if kind.tenanted and what.count("/") > 1 else ""
    region = " --region REGION" if "platform" not in kind.ledger else ""
    return f"`holdfast get {kind.plural}{tenant}{region}` lists them"


def _fault(fault: Mapping[str, Any], where: FieldLocator | None) -> str:
    pointer = str(fault.get("pointer", ""))
    line = format_field_error(pointer, str(fault.get("detail", "")), str(fault.get("hint") or ""))
    return f"{where(pointer)}: {line}" if where is not None else line


def format_field_error(pointer: str, message: str, hint: str = "") -> str:
    """Format a problem of one field: `spec.replicas: ...; hint`."""
    from holdfast.api.serialization.field_errors import dotted_path

    place = dotted_path(pointer)
    said = f"{message}; {hint}" if hint else message
    return f"{place}: {said}" if place else said


#: Next commands by code, where this program has better ones than the server's hint.
PROBLEM_HINTS = {
    "unauthenticated": "set HOLDFAST_TOKEN or --token-file, or `holdfast config set tokenFile=PATH`",
    "no-right": "`holdfast whoami` shows your permissions",
    "wrong-scope": "`holdfast whoami` shows the scope of your permissions",
    "stale": "it was changed meanwhile: read it with `holdfast get KIND NAME`, then try again",
    "not-leading": "`holdfast status` shows the leader",
    "outcome-unknown": "check the result with `holdfast get`, or repeat the command: apply is safe to repeat",
    "region-unreachable": "`holdfast status` shows each region's last contact",
    "invalid": "`holdfast schema KIND` explains the fields",
    "malformed": "`holdfast schema KIND` explains the fields",
    "contradictory": "`holdfast schema KIND` explains the fields",
    "priority": "`holdfast get tenants` shows the priority classes of each",
    "residency": "`holdfast get regions` shows their jurisdictions",
    "latency": "`holdfast get regions -o yaml` shows their latencies",
    "rate-limited": "try again later; a tenant's limit is `submitsPerMinute`: `holdfast get tenants -o yaml`",
    "read-only": "`holdfast status` shows why the ledger accepts no writes",
    "right-held": "`holdfast repair list` shows the rights that an unreachable region holds",
    "expired": "use a time in the future",
}
