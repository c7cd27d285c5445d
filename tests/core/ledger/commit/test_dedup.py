"""What people's keys cost, and in which order they are forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.ledger.codec import LogRecord, body_digest, key_id
from holdfast.core.ledger.commit.dedup import find_duplicate, is_known_key, remember_answer
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import KEY, IdempotencyRecord, LedgerState
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.values.settings import DEFAULTS
from tests.support.ledgers.platform import HOUR, T0

ACTOR = "person/root"
COMMAND = Configure(DEFAULTS)
WINDOW = DEFAULTS.retry_window
AHEAD = DEFAULTS.sent_ahead


class Counting(Table[int, IdempotencyRecord]):
    """A table that counts how often it is asked."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def get(self, key: int) -> IdempotencyRecord | None:
        self.asked += 1
        return super().get(key)


def a_state(most: int = 10_000) -> LedgerState:
    state = LedgerState()
    state.idempotency_keys = Counting()
    state.info = replace(state.info, settings=replace(DEFAULTS, keys_per_actor=most))
    return state


def use(state: LedgerState, name: str, at: int, sent: int | None = None, **fields: Any) -> None:
    """An accepted command under this key."""
    body = body_digest(Envelope(ACTOR, COMMAND, sent=at))
    record: dict[str, Any] = {
        "at": at, "sent": at if sent is None else sent, "actor": ACTOR, "command": "configure", "cause": 0,
        "session": 0, "sequence": 0, "key": key_id(ACTOR, name), "body": body, "answer": b"",
        "events": (),
    }  # fmt: skip
    remember_answer(state, LogRecord(**{**record, **fields}), at - T0 + 1)


def ask(state: LedgerState, key: str, at: int) -> Any:
    return find_duplicate(state, CommandContext(Envelope(ACTOR, COMMAND, sent=at, key=key), at, 1))


def is_full(state: LedgerState, at: int) -> bool:
    answer = ask(state, "one more", at)
    assert answer is None or (isinstance(answer, Refused) and answer.code is Code.TOO_MANY_KEYS)
    return answer is not None


def listed(state: LedgerState) -> list[int]:
    return [key for (key,) in KEY.iter_unpack(state.idempotency_keys_by_actor.get(ACTOR) or b"")]


def by_rebuild(state: LedgerState) -> list[int]:
    other = state.fork()
    other.rebuild()
    return listed(other)


@pytest.mark.parametrize("most", [10, 100, 10_000])
def test_asking_whether_an_actor_has_too_many_keys_costs_the_same_however_many_it_has(most: int) -> None:
    state = a_state(most)
    for number in range(most):
        use(state, f"k{number}", T0 + number)
    keys = state.idempotency_keys
    assert isinstance(keys, Counting)
    keys.asked = 0
    assert is_full(state, T0 + most)
    assert keys.asked <= 2
    keys.asked = 0
    assert not is_full(state, T0 + WINDOW + 1)
    assert keys.asked <= 2


@pytest.mark.parametrize("most", [10, 100, 10_000])
def test_keeping_another_key_costs_the_same_or_nearly_so_however_many_there_are(most: int) -> None:
    state = a_state(most)
    for number in range(most):
        use(state, f"k{number}", T0 + number)
    keys = state.idempotency_keys
    assert isinstance(keys, Counting)
    keys.asked = 0
    use(state, "late", T0 + WINDOW + 1)  # one of them is over
    assert keys.asked <= 6 + most.bit_length()
    assert len(listed(state)) == most


def test_so_many_keys_are_too_many_until_the_first_of_them_is_over() -> None:
    state = a_state(3)
    for at in (T0, T0 + 10, T0 + 20):
        assert not is_full(state, at)
        use(state, f"k{at}", at)
    assert is_full(state, T0 + 20)
    assert is_full(state, T0 + WINDOW)
    assert not is_full(state, T0 + WINDOW + 1)


def test_keys_are_listed_in_the_order_in_which_they_end() -> None:
    state = a_state(3)
    use(state, "ahead", T0, T0 + AHEAD)
    use(state, "now", T0 + 10)
    use(state, "next", T0 + 20)
    assert listed(state) == [key_id(ACTOR, name) for name in ("now", "next", "ahead")] == by_rebuild(state)
    assert is_full(state, T0 + 10 + WINDOW)
    assert not is_full(state, T0 + 11 + WINDOW)
    use(state, "again", T0 + 11 + WINDOW)
    assert listed(state) == [key_id(ACTOR, name) for name in ("next", "ahead", "again")] == by_rebuild(state)


def test_a_key_that_is_over_may_be_used_again_and_is_listed_once() -> None:
    state = a_state()
    use(state, "ahead", T0, T0 + AHEAD)
    use(state, "now", T0 + 10)
    use(state, "now", T0 + 11 + WINDOW)
    assert listed(state) == [key_id(ACTOR, name) for name in ("ahead", "now")] == by_rebuild(state)


def test_a_longer_window_brings_back_what_is_still_kept() -> None:
    state = a_state(1)
    use(state, "now", T0)
    assert not is_full(state, T0 + WINDOW + 1)
    longer = replace(state.info.settings, retry_window=WINDOW + HOUR)
    state.info = replace(state.info, settings=longer)
    assert is_full(state, T0 + WINDOW + 1)


def test_two_keys_of_one_number_are_the_later_actors() -> None:
    state = a_state()
    use(state, "mine", T0)
    use(state, "other", T0 + 1)
    use(state, "theirs", T0 + WINDOW + 1, actor="person/other", key=key_id(ACTOR, "mine"))
    assert listed(state) == [key_id(ACTOR, "other")] == by_rebuild(state)
    use(state, "next", T0 + 2 * WINDOW)
    assert listed(state) == [key_id(ACTOR, "next")]
    assert state.idempotency_keys.get(key_id(ACTOR, "mine")) is not None


def test_a_key_of_one_number_with_anothers_is_no_repeat_of_it() -> None:
    state = a_state()
    use(state, "mine", T0, actor="person/other", key=key_id(ACTOR, "mine"))
    assert ask(state, "mine", T0 + 1) is None
    assert not is_known_key(state, ACTOR, "mine", T0 + 1)
