"""Principals and tokens: a token's text, which its owner holds, and the hash that is stored.

    hf_NAME_SECRET        NAME has no underscore, so the text can be parsed in one way only

The name selects the hash to compare with. The creator of a token draws its secret with 256 bits of randomness, so a
plain hash needs neither salt nor stretching. This module is pure: it draws nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from enum import StrEnum
from typing import ClassVar

from holdfast.core.model.values.conditions import Status
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.structs import Document, Instant, Secret

TOKEN_PREFIX = "hf"
#: 32 random bytes in url-safe base64, without padding.
SECRET_CHARACTERS = 43
#: A sha256 in hexadecimal.
HASH_CHARACTERS = 64
NAME_MAX = 128

_NAME = rf"[a-z0-9](?:[-a-z0-9.]{{0,{NAME_MAX - 2}}}[a-z0-9])?"
_SPOKEN = re.compile(rf"{TOKEN_PREFIX}_({_NAME})_([A-Za-z0-9_-]{{{SECRET_CHARACTERS}}})")
_SPOKEN_MAX = len(TOKEN_PREFIX) + NAME_MAX + SECRET_CHARACTERS + 2
_SECRET = re.compile(rf"({TOKEN_PREFIX}_[A-Za-z0-9.-]+_)[A-Za-z0-9_-]{{{SECRET_CHARACTERS}}}")
_USER = re.compile(r"//[^/?#\s@\"'\\]+@")
_HASH = re.compile(rf"[0-9a-f]{{{HASH_CHARACTERS}}}")


def format_token(name: str, secret: str) -> str:
    """Return the text that a token's owner sends."""
    text = f"{TOKEN_PREFIX}_{name}_{secret}"
    assert parse_token(text) == (name, secret), f"{name!r} is no valid token name, or the secret is invalid"
    return text


def parse_token(text: str) -> tuple[str, str] | None:
    """Return the name and the secret of a token's text; None if the text is no token."""
    if len(text) > _SPOKEN_MAX:
        return None
    found = _SPOKEN.fullmatch(text)
    return (found[1], found[2]) if found else None


def redact_secrets(text: str) -> str:
    """Return the text without secrets of tokens, and without user and password of a URL."""
    return _USER.sub("//(secret)@", _SECRET.sub(r"\1(secret)", text))


def is_token_name(text: str) -> bool:
    """Whether the text is a valid token name."""
    return re.fullmatch(_NAME, text) is not None


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def is_hash(text: str) -> bool:
    """Whether the text can be the hash of a secret."""
    return _HASH.fullmatch(text) is not None


def verify_secret(secret: str, hash: str) -> bool:
    """Whether this secret has this hash. The time taken does not reveal how much of the secret is right."""
    return hmac.compare_digest(hash_secret(secret).encode(), hash.encode())


class Permission(StrEnum):
    """What a principal may do."""

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"
    OVERRIDE = "override"
    BREAK_GLASS = "break-glass"
    PROMOTE_POLICY = "promote-policy"
    SEE_OTHER_TENANTS = "see-other-tenants"
    AUDIT = "audit"


class Scope(Document, frozen=True):
    """Where permissions apply; an empty field means everywhere."""

    tenant: str = ""
    region: str = ""
    node: str = ""


class PrincipalSpec(Document, frozen=True):
    """Permissions of one actor. Its name begins with its kind: `person/`, `tenant/`, `scheduler/`, `agent/` or
    `region/`.

    An agent and a scheduler work in one region, which the scope names.
    """

    rights: tuple[Permission, ...] = ()
    scope: Scope = Scope()
    disabled: bool = False


class Principal(Document, frozen=True, tag="Principal"):
    """A named sender. It is copied to every region, which uses its own copy while it is cut off."""

    meta: Meta
    spec: PrincipalSpec
    status: Status = Status()


class TokenSpec(Document, frozen=True):
    """The hash of a token's secret, the principal that it authenticates, and its end. The secret is never stored.

    With `any` a token is valid for several machines: for each agent or scheduler of one region, or in every region.
    """

    ADDED: ClassVar[dict[str, int]] = {"any": 2}

    principal: str
    hash: Secret
    expires: Instant
    revoked: bool = False
    any: bool = False


class Token(Document, frozen=True, tag="Token"):
    """A bearer token. It is revoked by a new generation and deleted only after its expiry."""

    meta: Meta
    spec: TokenSpec
    status: Status = Status()
