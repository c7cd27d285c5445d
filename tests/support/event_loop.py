"""Running coroutines in tests, each on a fresh event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end."""
    return asyncio.run(main)


def in_a_loop(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """A test whose body is a coroutine, as a test that pytest can call."""

    @functools.wraps(test)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(test(*args, **kwargs))

    return call
