"""The part of both golden stories that level 2 added for servers."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.builtin.servers import AdmitServer, ForgetServer, RevokeServer
from holdfast.core.model.records.servers import SERVER_TOKEN_LIFE, ServerToken
from holdfast.core.model.values.limits import SERVER_TOKENS_MAX

SERVERS = "controller/servers"


def servers_of(bench: Any, ledger: str, operator: str) -> None:
    """Servers announce themselves, one too many of a name; one is revoked, another forgotten."""
    for number in range(SERVER_TOKENS_MAX + 1):
        token = ServerToken(f"server-{number}", f"{ledger}/s1", "0f" * 32, bench.at + 60_000 + number)
        bench.accept(SERVERS, AdmitServer(token))
    bench.accept(SERVERS, AdmitServer(ServerToken("server-9", f"{ledger}/s2", "ab" * 32, bench.at + 1)))
    bench.accept(operator, RevokeServer(f"{ledger}/s1"))
    bench.at += SERVER_TOKEN_LIFE + 2
    bench.accept(SERVERS, ForgetServer("server-9"))
