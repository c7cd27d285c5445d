"""How a server proves who it is while it acts for somebody: a signature over one request to one address (RULES 27).

    Holdfast-Acting-For: person/ada         whom it acts for
    Holdfast-Proof: TOKEN AT SIGNATURE      which token of a server's, when, and the signature

A secret that is sent is a secret that the other side has. So a server's is never sent: it is the seed of a key, the log
holds the public half, and a request is signed with where it goes, which ledger it is meant for, whom it is for, when,
and all that it says. Whoever hears it can repeat it there, to the letter and for `FRESH_MS`, and can do nothing else
with it. Writes name a key, so that a repeat changes nothing. And what is meant for one region is never done in another,
of which somebody wrote the address by mistake, or that has the address now.
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
#: What a request may say beside its path, its query and its body, and is handed on. All else stays behind, above all
#: whatever proves who sent it.
FORWARDED_HEADERS = (
    "content-type", "holdfast-read", "holdfast-sent", "holdfast-timeout-ms", "idempotency-key", "if-match",
    "if-none-match",
)  # fmt: skip
#: For so long a proof counts, and by so much two clocks may differ.
FRESH_MS = 300_000
#: So many keys are kept ready for use: to make one costs as much as to use it. A few servers speak with one another.
KEYS_KEPT = 64
#: Characters of a proof, at most.
_PROOF_MAX = 400
#: What is signed begins with this: no signature of ours means anything else.
_WHAT = "holdfast acting for 1"

encode = msgspec.msgpack.Encoder().encode


class SigningToken(Struct, frozen=True):
    """A server's own token as it holds it: the name that the log knows it by, and the secret."""

    name: str
    secret: str


class RequestProof(Struct, frozen=True):
    """What a request says of who signed it, before that is believed."""

    token: str
    at: Instant
    actor: str
    signature: bytes


def public_key_of(secret: str) -> str:
    """What the log holds of a server's secret: enough to check what is signed with it, and to sign nothing."""
    return _key(secret).public_key().public_bytes_raw().hex()


class RequestTarget(Struct, frozen=True):
    """Where a request goes: an address, and the ledger that is meant to be there."""

    address: str
    ledger: str


def signed_request(request: Request, to: RequestTarget, actor: str, own: SigningToken, at: Instant) -> Request:
    """The request as this server sends it on behalf of its caller."""
    carried = tuple((name, value) for name, value in request.headers if name in FORWARDED_HEADERS)
    bare = Request(request.verb, request.path, request.query, (*carried, (ACTING_FOR, actor)), request.body)
    signature = sign(own, _signed(bare, to, own.name, at))
    proof = f"{own.name} {at} {base64.urlsafe_b64encode(signature).decode()}"
    return msgspec.structs.replace(bare, headers=(*bare.headers, (PROOF, proof)))


def read_proof(request: Request) -> RequestProof | None:
    """The proof that a request carries; None: none, or one that cannot be read."""
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
    """Whether this very request was signed, for one of these goals, with the secret of which the log holds that."""
    return any(
        is_signed_by(verified_by, proof.signature, _signed(request, goal, proof.token, proof.at)) for goal in goals
    )


def sign(own: SigningToken, said: bytes) -> bytes:
    """This server's signature. What is signed begins by saying what it is: it must mean nothing else to anybody."""
    return _key(own.secret).sign(said)


def is_signed_by(verified_by: str, signature: bytes, said: bytes) -> bool:
    """Whether exactly that was signed with the secret of which the log holds this."""
    try:
        _public(verified_by).verify(signature, said)
    except (ValueError, InvalidSignature):
        return False
    return True


def is_fresh(proof: RequestProof, now: Instant) -> bool:
    """Whether it was signed just now, as far as two clocks can agree on that."""
    return abs(now - proof.at) <= FRESH_MS


@lru_cache(maxsize=KEYS_KEPT)
def _public(verified_by: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(verified_by))


@lru_cache(maxsize=KEYS_KEPT)
def _key(secret: str) -> Ed25519PrivateKey:
    # Not the secret's own bytes: it reads as 32 of them, and another use of it must not have the same key.
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"{_WHAT} key {secret}".encode()).digest())


def _signed(request: Request, to: RequestTarget, token: str, at: Instant) -> bytes:
    """All that makes a difference to whoever answers. Values of one name in their order, names in ours."""
    said: Pairs = tuple(
        (name, value) for one in (*FORWARDED_HEADERS, ACTING_FOR) for name, value in request.headers if name == one
    )
    body = hashlib.blake2b(request.body, digest_size=32).digest()
    goal = (origin(to.address), to.ledger)
    return encode((_WHAT, *goal, token, at, request.verb, request.path, request.query, said, body))
