"""The model of a ledger's servers, for both ledgers: their tokens in a dict, and the plainest rules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin import servers
from holdfast.core.ledger.builtin.servers import AdmitServer, ForgetServer, RevokeServer
from holdfast.core.model.records.servers import ServerToken

Known = dict[str, ServerToken]

LIFE = 7 * 24 * 3_600_000
OF_ONE, OF_ALL = 4, 256


@contextmanager
def lives_of(life_ms: int) -> Iterator[None]:
    """Tokens that last no longer than a program: so that some are over, and forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "SERVER_TOKEN_LIFE", life_ms)
        patch.setattr(sys.modules[__name__], "LIFE", life_ms)
        yield


def admit(known: Known, new: ServerToken, ledger: str, at: int) -> Code | None:
    parts = new.principal.split("/")
    is_server = (parts[0], len(parts)) in (("platform", 2), ("region", 3))
    if len(new.hash) != 64 or "_" in new.name or not is_server:
        return Code.MALFORMED
    if not new.principal.startswith(f"{ledger}/"):
        return Code.WRONG_SCOPE
    if not at < new.expires <= at + LIFE:
        return Code.EXPIRED
    if new.name in known:
        return Code.ALREADY
    own = sorted((one.expires, name) for name, one in known.items() if one.principal == new.principal)
    every = sorted((one.expires, name) for name, one in known.items())
    full = own if len(own) == OF_ONE else every if len(every) == OF_ALL else []
    if full:
        ends, first = full[0]
        if ends >= new.expires:
            return Code.TOO_LARGE
        del known[first]
    known[new.name] = new
    return None


def revoke(known: Known, principal: str, at: int) -> Code | None:
    own = [one for one in known.values() if one.principal == principal]
    good = [one for one in own if one.expires > at]
    if not good:
        return Code.ALREADY if own else Code.NOT_FOUND
    known.update((one.name, replace(one, expires=at)) for one in good)
    return None


def forget(known: Known, name: str, at: int) -> Code | None:
    if name not in known:
        return Code.NOT_FOUND
    if at < known[name].expires + LIFE:
        return Code.TOO_EARLY
    del known[name]
    return None


def judge(known: Known, command: Any, ledger: str, at: int) -> Code | None:
    """What a command about servers is answered, and what it does."""
    match command:
        case AdmitServer():
            return admit(known, command.server, ledger, at)
        case RevokeServer():
            return revoke(known, command.principal, at)
        case ForgetServer():
            return forget(known, command.name, at)
    raise AssertionError(command)


def a_command(below: Callable[[int], int], known: Known, ledger: str, at: int) -> Any:
    """One of them, drawn by a function that gives a number below another: mostly good, and sometimes not."""
    names = sorted(known, key=lambda name: known[name].expires)
    what = below(5)
    if what == 0:
        return RevokeServer(known[names[-1]].principal if names and below(4) else f"{ledger}/s{below(4)}")
    if what == 1:
        return ForgetServer(names[0] if names and below(8) else "never-was")
    principals = (*[f"{ledger}/s{number}" for number in (1, 1, 1, 2)], "platform/s9/x", "region/other/s1", "agent/n1")
    principal = principals[below(len(principals))] if below(6) == 0 else f"{ledger}/s{1 + below(2)}"
    name = names[below(len(names))] if names and below(9) == 0 else f"server-{below(10**9)}"
    hash = ("0f" * 32, "ab" * 32, "short")[below(3) if below(9) == 0 else 0]
    ends = at + (LIFE, LIFE - 1, LIFE // 2, 1, 0, LIFE + 1)[below(6) if below(5) == 0 else below(4)]
    return AdmitServer(ServerToken(name if below(20) else "no_name", principal, hash, ends))
