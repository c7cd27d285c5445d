"""The limit of server tokens in a ledger, and how they end."""

from __future__ import annotations

from holdfast.bench.limits.case import OPERATOR, LimitCase, Story, TimePasses, in_steps
from holdfast.core.ledger.builtin.servers import AdmitServer, ForgetServer, RevokeServer
from holdfast.core.model.objects.principals import hash_secret
from holdfast.core.model.records.servers import SERVER_TOKEN_LIFE, ServerToken
from holdfast.core.model.values.limits import SERVER_TOKENS_MAX, SERVERS_MAX
from holdfast.core.platform.state.tables import PlatformState

SERVERS = "controller/servers"


def crowded(state: PlatformState) -> Story:
    """Admit the maximum number of server tokens, and then more, each of which replaces one with an earlier end."""
    many, of_each = SERVERS_MAX + 100, SERVER_TOKENS_MAX
    ends = state.info.at + SERVER_TOKEN_LIFE // 2
    tokens = [
        ServerToken(f"t{n:04}", f"platform/s{n // of_each}", hash_secret("secret"), ends + n) for n in range(many)
    ]
    yield from in_steps([(SERVERS, AdmitServer(one)) for one in tokens])
    twins = [
        ServerToken(f"twin-{n}", "platform/twin", hash_secret("secret"), ends + many + n) for n in range(of_each + 1)
    ]
    yield from in_steps([(SERVERS, AdmitServer(one)) for one in twins])
    assert len(state.servers) == SERVERS_MAX


def forgotten(state: PlatformState) -> Story:
    """Revoke all tokens, and forget them after their end."""
    for principal in sorted({one.principal for one in state.servers.values()}):
        yield [(OPERATOR, RevokeServer(principal))]
    yield TimePasses(SERVER_TOKEN_LIFE)
    yield from in_steps([(SERVERS, ForgetServer(name)) for name, _ in state.servers.items()])


CASES = (
    LimitCase(
        "servers", "platform", ("limits.SERVERS_MAX", "limits.SERVER_TOKENS_MAX"), crowded, forgotten, is_timed=False
    ),
)
