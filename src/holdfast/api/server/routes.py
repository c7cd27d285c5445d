"""The table of routes: path and method to handler, and the parameters that each accepts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from holdfast.api.server import machines
from holdfast.api.server.context import ServerContext
from holdfast.api.server.forwarding import to_region
from holdfast.api.server.objects import batch, writes
from holdfast.api.server.reports import access, audit, decisions, discovery, fairness, quota, schedulers, status
from holdfast.api.server.request import ApiRequest
from holdfast.core.ledger.commit.authorization import MACHINES, PEOPLE
from holdfast.host.ports.transport import Reply, StreamReply

RouteHandler = Callable[[ServerContext, ApiRequest], Awaitable[Reply | StreamReply]]

ANY_SEGMENTS = 64

ANYONE = (*PEOPLE, *MACHINES)

READERS = (*PEOPLE, "scheduler")

DRY_RUN_PARAMS = ("dryRun", "read")

LIST_PARAMS = ("limit", "continue", "selector", "tenant", "watch", "since", "initial", "read")

AUDIT_PARAMS = ("since", "actor", "command", "outcome", "limit", "continue", "read")


class Route(Struct, frozen=True):
    """One route: its handler, the kinds of callers, whether only the leader serves it, and the number of further path
    segments."""

    answers: RouteHandler
    #: Kinds of principals: a machine is served only if its kind is in the list, even for public data.
    by: tuple[str, ...] = PEOPLE
    #: Whether the route needs no authentication.
    is_open: bool = False
    is_led: bool = False
    #: Whether the handler never waits, so it needs no deadline.
    is_prompt: bool = False
    least: int = 0
    most: int = 0
    #: Accepted query parameters; None: any, since another server checks them.
    asks: tuple[str, ...] | None = ("read",)


#: By the first segments of the path, then by method.
FIXED_ROUTES: dict[tuple[str, ...], dict[str, Route]] = {
    ("healthz",): {"GET": Route(discovery.healthz, is_open=True)},
    ("readyz",): {"GET": Route(discovery.readyz, is_open=True)},
    ("openapi.json",): {"GET": Route(discovery.openapi, is_open=True)},
    ("v1", "schemas"): {"GET": Route(discovery.schemas, is_open=True, most=1)},
    ("v1", "status"): {"GET": Route(status.status, READERS)},
    ("v1", "whoami"): {"GET": Route(access.whoami, ANYONE)},
    ("v1", "can-i"): {"POST": Route(access.can_i)},
    ("v1", "audit"): {"GET": Route(audit.audit, asks=AUDIT_PARAMS)},
    ("v1", "repairs"): {"GET": Route(status.repairs, asks=("tenant", "limit", "read"))},
    ("v1", "fairness"): {"GET": Route(fairness.fairness, asks=fairness.QUERY_PARAMS)},
    # The platform answers where they are.
    ("v1", "schedulers"): {
        "GET": Route(schedulers.schedulers, READERS, is_led=True, most=ANY_SEGMENTS, asks=schedulers.QUERY_PARAMS)
    },
    ("v1", "batch"): {"POST": Route(batch.batch, is_led=True, asks=DRY_RUN_PARAMS)},
    ("v1", "commands"): {"POST": Route(writes.command, is_led=True, least=1, most=1, asks=DRY_RUN_PARAMS)},
    ("v1", "envelopes"): {"POST": Route(machines.envelope, ANYONE, is_led=True)},
    ("v1", "envelopes", "batch"): {"POST": Route(machines.envelopes, ANYONE, is_led=True)},
    ("v1", "renewals"): {"POST": Route(machines.renewal, ANYONE, is_led=True, is_prompt=True)},
}

PLATFORM_ROUTES: dict[tuple[str, ...], dict[str, Route]] = {
    ("v1", "quota"): {"GET": Route(quota.quota, most=1)},
    ("v1", "shipments"): {"GET": Route(machines.shipped, ("region",), asks=None)},
    ("v1", "in"): {
        verb: Route(to_region, least=2, most=ANY_SEGMENTS, asks=None) for verb in ("GET", "PUT", "POST", "DELETE")
    },
}

REGION_ROUTES: dict[tuple[str, ...], dict[str, Route]] = {
    ("v1", "bindings"): {"GET": Route(machines.bindings, ("agent",), asks=("session",))},
    ("v1", "decisions"): {"GET": Route(decisions.decisions, READERS, asks=decisions.QUERY_PARAMS)},
    ("v1", "log"): {"GET": Route(machines.log, ("scheduler",), asks=("since",))},
    ("v1", "queue"): {"GET": Route(decisions.queue, READERS, asks=decisions.QUEUE_PARAMS)},
}
