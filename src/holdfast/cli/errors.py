"""What goes wrong, as people are told: what happened, to what, why; then `hint:` and the next command. And how the
program ends: the one table of exit codes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any


class CliExitCode(IntEnum):
    """How the program ended. docs/reference/cli.md has the same table."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    DENIED = 3
    UNREACHABLE = 4
    UNKNOWN = 5
    INTERRUPTED = 130


#: Answers that say nothing about the request: the same one may be done in a moment.
UNAVAILABLE_STATUSES = (429, 502, 503, 504)
#: The file and line of a JSON pointer.
FieldLocator = Callable[[str], str]


class CliError(Exception):
    """What the user is told, and how the program ends. `lines` are further facts, one each."""

    def __init__(
        self, message: str, *, ending: CliExitCode = CliExitCode.REFUSED, hint: str = "", lines: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.ending = ending
        self.hint = hint
        self.lines = tuple(lines)


def usage_error(message: str, hint: str = "", lines: Sequence[str] = ()) -> CliError:
    """The command or the file is wrong; nothing was sent."""
    return CliError(message, ending=CliExitCode.USAGE, hint=hint, lines=lines)


def print_error(trouble: CliError) -> None:
    """Say it on stderr."""
    from holdfast.cli.output.printer import escape_controls
    from holdfast.core.model.objects.principals import redact_secrets

    words = [f"error: {trouble}", *(f"  {line}" for line in trouble.lines)]
    if trouble.hint:
        words.append(f"hint: {trouble.hint}")
    sys.stdout.flush()
    print(*(escape_controls(redact_secrets(word)) for word in words), sep="\n", file=sys.stderr)


def exit_code_of(problem: Mapping[str, Any]) -> CliExitCode:
    """How the program ends on a problem."""
    status = problem.get("status")
    if status in (401, 403):
        return CliExitCode.DENIED
    if problem.get("code") == "outcome-unknown":
        return CliExitCode.UNKNOWN
    return CliExitCode.UNREACHABLE if status in UNAVAILABLE_STATUSES else CliExitCode.REFUSED


def from_problem(problem: Mapping[str, Any], what: str = "", where: FieldLocator | None = None) -> CliError:
    """A server's problem as trouble. `where` says at which file and line each pointer is, when files were sent."""
    code = str(problem.get("code", ""))
    said = str(problem.get("detail") or problem.get("title") or "refused")
    lines = [_fault(fault, where) for fault in problem.get("errors") or ()]
    message = f"{what}: {said}" if what and what not in said else said
    hint = _hint(problem, code, what)
    ending = exit_code_of(problem)
    return CliError(f"{message} ({code})" if code else message, ending=ending, hint=hint, lines=lines)


def _hint(problem: Mapping[str, Any], code: str, what: str) -> str:
    """The next command, with the names of what this is about in it."""
    facts = problem.get("facts") or {}
    if code == "not-found":
        return _listing(str(facts.get("kind") or what.partition("/")[0]), what)
    hint = PROBLEM_HINTS.get(code) or str(problem.get("hint") or "")
    kind, _, name = what.partition("/")
    return hint.replace("KIND", kind).replace("NAME", name) if what else hint


def _listing(word: str, what: str) -> str:
    """How to see which there are, of a kind of which one is missing."""
    from holdfast.api.kinds import find_kind

    kind = find_kind(word)
    if kind is None:
        return ""
    tenant = f" --tenant {what.split('/')[1]}" if kind.tenanted and what.count("/") > 1 else ""
    region = " --region REGION" if "platform" not in kind.ledger else ""
    return f"`holdfast get {kind.plural}{tenant}{region}` shows which there are"


def _fault(fault: Mapping[str, Any], where: FieldLocator | None) -> str:
    pointer = str(fault.get("pointer", ""))
    line = format_field_error(pointer, str(fault.get("detail", "")), str(fault.get("hint") or ""))
    return f"{where(pointer)}: {line}" if where is not None else line


def format_field_error(pointer: str, message: str, hint: str = "") -> str:
    """What is wrong with one field: `spec.replicas: ...; hint`."""
    from holdfast.api.serialization.field_errors import dotted_path

    place = dotted_path(pointer)
    said = f"{message}; {hint}" if hint else message
    return f"{place}: {said}" if place else said


#: What to run next, where this program knows better than the server what its user has at hand.
PROBLEM_HINTS = {
    "unauthenticated": "set HOLDFAST_TOKEN or --token-file, or `holdfast config set tokenFile=PATH`",
    "no-right": "`holdfast whoami` shows your rights",
    "wrong-scope": "`holdfast whoami` shows where your rights hold",
    "stale": "it was changed meanwhile: look again with `holdfast get KIND NAME`, then try again",
    "not-leading": "`holdfast status` shows who leads",
    "outcome-unknown": "look whether it was done with `holdfast get`, or send the same again: apply may be repeated",
    "region-unreachable": "`holdfast status` shows when each region was last heard",
    "invalid": "`holdfast schema KIND` explains the fields",
    "malformed": "`holdfast schema KIND` explains the fields",
    "contradictory": "`holdfast schema KIND` explains the fields",
    "priority": "`holdfast get tenants` shows which classes each may use",
    "residency": "`holdfast get regions` shows where each is",
    "latency": "`holdfast get regions -o yaml` shows how far each is from whom",
    "rate-limited": "wait a moment; a tenant's rate is `submitsPerMinute` of its spec: `holdfast get tenants -o yaml`",
    "read-only": "`holdfast status` shows why nothing can be written",
    "right-held": "`holdfast repair list` shows which rights a region holds that does not answer",
    "expired": "give a time that is still to come",
}
