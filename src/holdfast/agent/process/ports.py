"""Ports of a process, looked at before it begins: one that somebody else on the machine has is told as what it is."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from holdfast.agent.driver import CannotStart, StartFault


def must_be_free(ports: Iterable[int]) -> None:
    """`CannotStart` when somebody listens on one of these. It may still be taken until the process listens itself."""
    for port in ports:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    continue  # such as a low port, which the process may be allowed to have and the agent not
                raise CannotStart(
                    StartFault.PORT,
                    f"port {port} is taken by another process of this node\n"
                    "hint: give the agent --ports that nobody else uses",
                ) from None
