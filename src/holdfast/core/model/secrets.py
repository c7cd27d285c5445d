"""A token as its owner holds it, and the hash of it that is stored.

    hf_NAME_SECRET        NAME has no underscore, so the text reads back in one way only

The name says which hash to compare with; the secret is drawn by whoever makes the token, with 256 bits of chance, so a
plain hash of it needs neither salt nor time. This module is pure: it draws nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re

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


def spoken(name: str, secret: str) -> str:
    """What a token's owner sends."""
    text = f"{TOKEN_PREFIX}_{name}_{secret}"
    assert parse(text) == (name, secret), f"no token can be named {name!r}, or its secret is none"
    return text


def parse(text: str) -> tuple[str, str] | None:
    """The name and the secret in what was sent; None when it is no token."""
    if len(text) > _SPOKEN_MAX:
        return None
    found = _SPOKEN.fullmatch(text)
    return (found[1], found[2]) if found else None


def blotted(text: str) -> str:
    """The text without the secrets of tokens in it, and without the user and the password of a URL."""
    return _USER.sub("//(secret)@", _SECRET.sub(r"\1(secret)", text))


def is_token_name(text: str) -> bool:
    """Whether a token can be called so."""
    return re.fullmatch(_NAME, text) is not None


def hashed(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_hash(text: str) -> bool:
    """Whether this can be the hash of a secret."""
    return _HASH.fullmatch(text) is not None


def matches(secret: str, hash: str) -> bool:
    """Whether this is the secret that was hashed; how long that takes does not tell how much of it is right."""
    return hmac.compare_digest(hashed(secret).encode(), hash.encode())
