"""From documents to commands: the command that stores or deletes an object, or that has a tag."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.api.kinds import ResourceKind, find_kind, public_name
from holdfast.api.problems import from_refusal, problem
from holdfast.api.resources.platform_types import SchedulerPolicyView
from holdfast.api.resources.schemas import named_commands, parse_command
from holdfast.api.resources.tables import ledger_of
from holdfast.api.resources.validation import administer_command, publish_command
from holdfast.api.serialization.field_errors import FieldError, InvalidDocument
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.request import ApiError
from holdfast.core.ledger.answers import not_found
from holdfast.core.model.objects.principals import Token
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.platform import commands as platform


def put_command(redaction: Redaction, state: Any, kind: ResourceKind, sent: Any) -> Any:
    """Return the command that stores an object in the ledger of its kind."""
    if ledger_of(state) not in kind.written_on:
        hint = "use --region NAME" if "region" in kind.written_on else "use the platform"
        raise ApiError(problem("no-such-route", f"the {ledger_of(state)} does not store {kind.plural}: {hint}"))
    if isinstance(sent, Workload):
        return platform.PutWorkload(sent)
    if isinstance(sent, SchedulerPolicyView):
        return publish_command(sent)
    if isinstance(sent, Token) and not sent.spec.hash:
        # The hash is never shown, so a document that was read comes back without it.
        stored = state.tokens.get(sent.meta.name)
        sent = replace(sent, spec=replace(sent.spec, hash=stored.spec.hash)) if stored is not None else sent
    if kind.name != "Node":
        return platform.Put(sent)
    uid = state.node_names.get(sent.meta.name)
    if uid is None and not redaction.tenant:  # a tenant does not learn whether the node exists
        raise ApiError(from_refusal(not_found("Node", sent.meta.name)))
    return administer_command(sent, uid or 0)


def delete_command(kind: ResourceKind, rest: tuple[str, ...]) -> Any:
    """Return the command that deletes an object."""
    if kind.name == "Workload":
        return platform.DeleteWorkload(rest[0], "/".join(rest[1:]))
    return platform.Delete(kind.name, "/".join(rest))


def kind_of_object(sent: Any) -> tuple[ResourceKind, str]:
    """Return the kind of a parsed object, and its name in the path."""
    kind = find_kind(public_name(type(sent)))
    assert kind is not None, type(sent)
    return kind, f"{sent.meta.tenant}/{sent.meta.name}" if kind.tenanted else sent.meta.name


def tags(ledger: str) -> list[str]:
    """Return the commands that users may send by name."""
    return list(named_commands(ledger))


def command_of(ledger: str, tag: str, tree: Any) -> Any:
    """Return the command of this name with these fields."""
    known = tags(ledger)
    if tag not in known:
        raise ApiError(problem("no-such-route", f"no command {tag[:80]!r}; known: {', '.join(known)}"))
    if not isinstance(tree, dict):
        raise InvalidDocument([FieldError("", "the fields of a command must be an object")])
    return parse_command(ledger, tag, tree)
