"""Who a process may run as: users that the node allows, and never root.

An agent that is root changes to the user before the process begins. One that is not can only run processes as itself,
which gives no protection between them and it: everything it could do, they can.
"""

from __future__ import annotations

import os
import pwd

from msgspec import Struct

from holdfast.agent.driver import CannotStart, StartFault
from holdfast.agent.process.settings import DEFAULT_USER, ProcessSettings


class User(Struct, frozen=True):
    """A user by number, with the one group that a process of theirs has."""

    uid: int
    gid: int


def user_for(asked: str, settings: ProcessSettings) -> User | None:
    """Who is meant, if the node allows it; None when it is the agent's own user, which needs no change."""
    if os.geteuid() != 0:
        _see_that_it_is_own(asked or settings.user)
        return None
    user = _known(asked or settings.user or DEFAULT_USER)
    if user.uid == 0 or user.gid == 0:
        raise CannotStart(
            StartFault.USER_NOT_ALLOWED,
            f"{asked or settings.user}: is root, or in its group; nothing runs as root\nhint: name another user",
        )
    allowed = [settings.user or DEFAULT_USER, *settings.users]
    if user.uid not in [_known(one).uid for one in allowed]:
        raise CannotStart(
            StartFault.USER_NOT_ALLOWED,
            f"{asked}: not among the users that this node allows ({', '.join(allowed)})\n"
            "hint: name one of them, or ask the node's operator to allow it",
        )
    return user


def _see_that_it_is_own(asked: str) -> None:
    own = os.geteuid()
    if asked and _known(asked).uid != own:
        raise CannotStart(
            StartFault.USER_NOT_ALLOWED,
            f"{asked}: the agent runs as user {own}, and only root can start processes as somebody else\n"
            "hint: ask for no user, or let the agent run as root",
        )


def _known(name: str) -> User:
    """A user by name or number. A number need not be in the table of users: then its group has the same."""
    try:
        entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        if name.isdecimal() and 0 <= int(name) < 2**32 - 1:
            return User(int(name), int(name))
        raise CannotStart(
            StartFault.UNKNOWN_USER, f"{name}: there is no such user on this node\nhint: name one of /etc/passwd"
        ) from None
    return User(entry.pw_uid, entry.pw_gid)
