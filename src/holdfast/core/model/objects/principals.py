"""A token as its owner holds it, and the hash of it that is stored.

    hf_NAME_SECRET        NAME has no underscore, so the text reads back in one way only

The name says which hash to compare with; the secret is drawn by whoever makes the token, with 256 bits of chance, so a
plain hash of it needs neither salt nor time. This module is pure: it draws nothing.
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
    """What a token's owner sends."""
    text = f"{TOKEN_PREFIX}_{name}_{secret}"
    assert parse_token(text) == (name, secret), f"no token can be named {name!r}, or its secret is none"
    return text


def parse_token(text: str) -> tuple[str, str] | None:
    """The name and the secret in what was sent; None when it is no token."""
    if len(text) > _SPOKEN_MAX:
        return None
    found = _SPOKEN.fullmatch(text)
    return (found[1], found[2]) if found else None


def redact_secrets(text: str) -> str:
    """The text without the secrets of tokens in it, and without the user and the password of a URL."""
    return _USER.sub("//(secret)@", _SECRET.sub(r"\1(secret)", text))


def is_token_name(text: str) -> bool:
    """Whether a token can be called so."""
    return re.fullmatch(_NAME, text) is not None


def hash_secret(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_hash(text: str) -> bool:
    """Whether this can be the hash of a secret."""
    return _HASH.fullmatch(text) is not None


def verify_secret(secret: str, hash: str) -> bool:
    """Whether this is the secret that was hashed; how long that takes does not tell how much of it is right."""
    return hmac.compare_digest(hash_secret(secret).encode(), hash.encode())


class Permission(StrEnum):
    """What a person or a token may do."""

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"
    OVERRIDE = "override"
    BREAK_GLASS = "break-glass"
    PROMOTE_POLICY = "promote-policy"
    SEE_OTHER_TENANTS = "see-other-tenants"
    AUDIT = "audit"


class Scope(Document, frozen=True):
    """Where a right holds; an empty field means everywhere."""

    tenant: str = ""
    region: str = ""
    node: str = ""


class PrincipalSpec(Document, frozen=True):
    """Rights of one actor. The name says its kind: `person/`, `tenant/`, `scheduler/`, `agent/` or `region/`.

    An agent and a scheduler work in one region, which its scope names.
    """

    rights: tuple[Permission, ...] = ()
    scope: Scope = Scope()
    disabled: bool = False


class Principal(Document, frozen=True, tag="Principal"):
    """Copied to every region, which judges by its own copy while it is cut off."""

    meta: Meta
    spec: PrincipalSpec
    status: Status = Status()


class TokenSpec(Document, frozen=True):
    """A secret's hash, never the secret (see `secrets`); whom it speaks for, and until when.

    `any` says that it is meant for more than one machine in one region: for whichever agent or scheduler a request
    names, or in every region.
    """

    ADDED: ClassVar[dict[str, int]] = {"any": 2}

    principal: str
    hash: Secret
    expires: Instant
    revoked: bool = False
    any: bool = False


class Token(Document, frozen=True, tag="Token"):
    """Revoked by a new generation, forgotten only after its expiry."""

    meta: Meta
    spec: TokenSpec
    status: Status = Status()
