"""Tokens in files: a secret is drawn here and nowhere else, and lies in a file that its owner alone can read."""

from __future__ import annotations

import secrets
from pathlib import Path

from holdfast.core.model.secrets import parse, spoken
from holdfast.wiring.private import read_private, write_private


def new_token(name: str, file: Path) -> str:
    """Another token, into its file: 32 random bytes under a name that no token had before."""
    text = spoken(f"{name}-{secrets.token_hex(4)}", secrets.token_urlsafe(32))
    write_private(file, text + "\n")
    return text


def token_in(name: str, file: Path) -> str:
    """The token in the file; a new one where there is none. `NotPrivate` when others can read it."""
    text = read_private(file) or ""
    return text if parse(text) is not None else new_token(name, file)
