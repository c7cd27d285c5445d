"""From a context to a client (`connect`), to one region or to all, and from a client's errors to messages."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.cli.context import CliContext, resolve
from holdfast.cli.errors import CliError, CliExitCode, FieldLocator, from_problem, usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.core.model.values.addresses import is_exposed

if TYPE_CHECKING:
    from holdfast.client.blocking_client import BlockingTransport, Client
    from holdfast.client.config import ClientConfig
    from holdfast.host.ports.transport import Reply, Request

    ApiClient: TypeAlias = Client
else:
    ApiClient = Any

#: Longest time of one attempt, so that another server gets one within the command's time limit.
ATTEMPT_MS = 10_000


def connect(options: GlobalOptions, context: CliContext | None = None, *, region: str = "") -> ApiClient:
    """Return a client of the context's servers, or of a region through them. It sends nothing yet."""
    context = context or resolve(options)
    from holdfast.client.config import ClientConfig

    if "/" in region or region in (".", ".."):
        raise usage_error(f"--region {region}: not a region name", "`holdfast get regions` lists them")
    exposed = [one for one in context.servers if is_exposed(one)]
    if exposed and not context.insecure:
        what = "the token would be readable on the network" if context.token else "others could read and forge it"
        hint = "use https://, or --insecure if the network itself is private"
        raise usage_error(f"nothing was sent: {exposed[0]} is plain http beyond this machine: {what}", hint)
    patience = options.timeout_ms
    access = ClientConfig(
        servers=context.servers,
        token=context.token,
        tenant=context.tenant,
        retry_for_ms=patience,
        timeout_ms=max(1, min(ATTEMPT_MS, patience)),
        insecure=context.insecure,
    )
    if options.verbose:
        through = f" through region {region}" if region else ""
        print_note(f"context {context.name or '-'}: {', '.join(context.servers)}{through}")
    client = open_client(access, context, options.verbose)
    return client.region(region) if region else client


def open_client(access: ClientConfig, context: CliContext, verbose: int = 0) -> ApiClient:
    """Return a client over HTTP. Tests replace this function."""
    from holdfast.client.blocking_client import Client
    from holdfast.transports.blocking_http import BlockingHttpTransport
    from holdfast.transports.tls import TlsConfig

    shows = TlsConfig(certificate=context.certificate, key=context.key, authorities=context.authorities)
    tls = shows if any((context.certificate, context.authorities)) else None
    transport = BlockingHttpTransport(tls, insecure=context.insecure)
    return Client(_LoggingTransport(transport) if verbose else transport, access)


class _LoggingTransport:
    """A transport that prints each request, its server, status and duration to stderr."""

    def __init__(self, inner: BlockingTransport) -> None:
        self._inner = inner

    def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        began = time.monotonic()
        said = "no answer"
        try:
            reply = self._inner.call(peer, request, timeout_ms)
            said = str(reply.status)
            return reply
        finally:
            print_note(f"{request.verb} {peer}{request.path} {said} {(time.monotonic() - began) * 1000:.0f} ms")

    def stream(self, peer: str, request: Request, idle_ms: int) -> Iterator[bytes]:
        print_note(f"{request.verb} {peer}{request.path} as a stream")
        return self._inner.stream(peer, request, idle_ms)


def is_not_found(error: Exception) -> bool:
    """Return whether the error means that the object does not exist."""
    from holdfast.client.errors import NotFoundError

    return isinstance(error, NotFoundError) and error.problem.code == "not-found"


def to_cli_error(error: Exception, verbose: int = 0, *, what: str = "", where: FieldLocator | None = None) -> CliError:
    """Return an error of the client as a message for the user. An unforeseen one is an internal error."""
    if isinstance(error, CliError):
        return error
    problems = sys.modules.get("holdfast.client.errors")
    if problems is not None and isinstance(error, problems.HoldfastError):
        return _from_client_error(error, what, where)
    if verbose > 1:
        import traceback

        print_note(traceback.format_exc())
    hint = "" if verbose > 1 else "repeat with -vv for a stack trace, and please report it"
    return CliError(f"internal error: {type(error).__name__}: {error}", ending=CliExitCode.UNKNOWN, hint=hint)


@contextmanager
def explain_errors(options: GlobalOptions, what: object) -> Iterator[None]:
    """Raise errors of requests about `what` as messages for the user."""
    try:
        yield
    except Exception as error:
        raise to_cli_error(error, options.verbose, what=str(what)) from None


def _from_client_error(error: Any, what: str, where: FieldLocator | None) -> CliError:
    from holdfast.client import errors

    problem = problem_map(error.problem)
    trouble = from_problem(problem, what, where)
    if isinstance(error, errors.OutcomeUnknownError):
        hint = "it may have been executed: check with `holdfast get`; apply and delete are safe to repeat"
        return CliError(str(trouble), ending=CliExitCode.UNKNOWN, hint=hint, lines=trouble.lines)
    if isinstance(error, errors.PermissionDeniedError):
        return CliError(str(trouble), ending=CliExitCode.DENIED, hint=trouble.hint, lines=trouble.lines)
    if isinstance(error, errors.UnavailableError | errors.WaitTimeoutError):
        hint = trouble.hint or _unreachable_hint(problem)
        return CliError(str(trouble), ending=CliExitCode.UNREACHABLE, hint=hint, lines=trouble.lines)
    return trouble


def _unreachable_hint(problem: dict[str, Any]) -> str:
    if problem.get("code") in ("unreachable", "no-answer"):
        shown = "`holdfast config show` shows the servers and trusted authorities in use"
        return f"{shown}; `--server URL` names another"
    return "`holdfast status` shows the leader"


def problem_map(problem: Any) -> dict[str, Any]:
    """Return a problem as a map."""
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(problem)
    return found


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
