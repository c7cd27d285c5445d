"""How a server authenticates itself while it acts for a caller: a signature over one request to one address (RULES 27).

    Holdfast-Acting-For: person/ada         the principal that it acts for
    Holdfast-Proof: TOKEN AT SIGNATURE      the server's token name, the time, and the signature

A server never sends its secret, because the receiver could use it. The secret is the seed of a key, and the log
contains the public half. The signature covers the address, the ledger, the caller, the time and the complete request.
An eavesdropper can only repeat that request at that address for `FRESH_MS`, and the idempotency key makes a repeated
write harmless. No other region executes it, even if it has that address by now or by mistake.
"""

from __future__ import annotations

import base64
import hashlib
from binascii import Error as NotBase64
from collections.abc import Iterable
from functools import lru_cache

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

from holdfast.core.model.values.addresses import origin
from holdfast.core.model.values.structs import Instant
from holdfast.host.ports.transport import Pairs, Request, first_value

ACTING_FOR = "holdfast-acting-for"
PROOF = "holdfast-proof"
#: Headers that are signed and forwarded. All others are dropped, above all credentials.
FORWARDED_HEADERS = (
    "content-type", "holdfast-read", "holdfast-sent", "holdfast-timeout-ms", "idempotency-key", "if-match",
    "if-none-match",
)  # fmt: skip
#: How long a proof is valid, and how far two clocks may differ.
FRESH_MS = 300_000
#: Largest number of cached keys: creating one costs as much as using it.
KEYS_KEPT = 64
#: Largest length of a proof, in characters.
_PROOF_MAX = 400
#: Prefix of everything that is signed, so that signatures have no other use.
_WHAT = "holdfast acting for 1"

encode = msgspec.msgpack.Encoder().encode


class SigningToken(Struct, frozen=True):
    """A server's own token: its name in the log, and the secret."""

    name: str
    secret: str


class RequestProof(Struct, frozen=True):
    """The proof in a request, before it is verified."""

    token: str
    at: Instant
    actor: str
    signature: bytes


def public_key_of(secret: str) -> str:
    """Return the public key of a server's secret, as stored in the log."""
    return _key(secret).public_key().public_bytes_raw().hex()


class RequestTarget(Struct, frozen=True):
    """The target of a request: an address, and the ledger expected there."""

    address: str
    ledger: str


def signed_request(request: Request, to: RequestTarget, actor: str, own: SigningToken, at: Instant) -> Request:
    """Return the request as this server sends it on behalf of its caller."""
    carried = tuple((name, value) for name, value in request.headers if name in FORWARDED_HEADERS)
    bare = Request(request.verb, request.path, request.query, (*carried, (ACTING_FOR, actor)), request.body)
    signature = sign(own, _signed(bare, to, own.name, at))
    proof = f"{own.name} {at} {base64.urlsafe_b64encode(signature).decode()}"
    return msgspec.structs.replace(bare, headers=(*bare.headers, (PROOF, proof)))


def read_proof(request: Request) -> RequestProof | None:
    """Return the proof in a request; None: there is none, or it cannot be read."""
    text = first_value(request.headers, PROOF)
    parts = text.split(" ") if len(text) <= _PROOF_MAX else []
    if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit() and len(parts[1]) < 18):
        return None
    try:
        signature = base64.urlsafe_b64decode(parts[2].encode())
    except (NotBase64, ValueError):
        return None
    return RequestProof(parts[0], int(parts[1]), first_value(request.headers, ACTING_FOR), signature)


def is_signed(request: Request, proof: RequestProof, verified_by: str, goals: Iterable[RequestTarget]) -> bool:
    """Whether this exact request was signed for one of these targets, with this key's secret."""
    return any(
        is_signed_by(verified_by, proof.signature, _signed(request, goal, proof.token, proof.at)) for goal in goals
    )


def sign(own: SigningToken, said: bytes) -> bytes:
    """Return this server's signature. The bytes must begin with their purpose."""
    return _key(own.secret).sign(said)


def is_signed_by(verified_by: str, signature: bytes, said: bytes) -> bool:
    """Whether exactly these bytes were signed with this key's secret."""
    try:
        _public(verified_by).verify(signature, said)
    except (ValueError, InvalidSignature):
        return False
    return True


def is_fresh(proof: RequestProof, now: Instant) -> bool:
    """Whether the proof is recent, allowing for the difference of two clocks."""
    return abs(now - proof.at) <= FRESH_MS


@lru_cache(maxsize=KEYS_KEPT)
def _public(verified_by: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(verified_by))


@lru_cache(maxsize=KEYS_KEPT)
def _key(secret: str) -> Ed25519PrivateKey:
    # Hashed, so that another use of the secret never has the same key.
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"{_WHAT} key {secret}".encode()).digest())


def _signed(request: Request, to: RequestTarget, token: str, at: Instant) -> bytes:
    """Return everything that affects the answer, with header names in a fixed order."""
    said: Pairs = tuple(
        (name, value) for one in (*FORWARDED_HEADERS, ACTING_FOR) for name, value in request.headers if name == one
    )
    body = hashlib.blake2b(request.body, digest_size=32).digest()
    goal = (origin(to.address), to.ledger)
    return encode((_WHAT, *goal, token, at, request.verb, request.path, request.query, said, body))
