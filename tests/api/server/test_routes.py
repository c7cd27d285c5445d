"""Every route is described, and whatever is described is a route."""

from __future__ import annotations

import re

import pytest

from holdfast.api.kinds import KINDS, SOFT_KINDS
from holdfast.api.openapi.document import description
from holdfast.host.ports.transport import Reply, Request
from tests.support.api.api_cluster import Part, World, in_world

LEDGERS = ("platform", "region")


async def of(world: World, ledger: str) -> Part:
    return await (world.platform() if ledger == "platform" else world.region())


def described(ledger: str) -> list[tuple[str, tuple[str, ...]]]:
    """By verb and the segments of its path: what is said to be answered."""
    return [
        (verb.upper(), tuple(path.strip("/").split("/")))
        for path, verbs in description(ledger)["paths"].items()
        for verb in verbs
    ]


@pytest.mark.parametrize("ledger", LEDGERS)
def test_every_route_is_described(ledger: str) -> None:
    async def story(world: World) -> None:
        api, known = (await of(world, ledger)).api, described(ledger)
        elsewhere = {("v1", kind.plural) for kind in (KINDS | SOFT_KINDS).values() if ledger not in kind.ledger}
        for prefix, routes in api.routes.items():
            for verb, route in routes.items():
                rests = [
                    len(path) - len(prefix) for word, path in known if (word, path[: len(prefix)]) == (verb, prefix)
                ]
                fitting = [rest for rest in rests if route.least <= rest <= route.most]
                if prefix in elsewhere:
                    assert not fitting, (verb, prefix)
                    continue
                assert fitting, (verb, prefix)
                assert route.least > 0 or 0 in fitting, (verb, prefix)
                assert route.most == 0 or max(fitting) > 0, (verb, prefix)

    in_world(story)


@pytest.mark.parametrize("ledger", LEDGERS)
def test_whatever_is_described_is_answered(ledger: str) -> None:
    async def story(world: World) -> None:
        api = (await of(world, ledger)).api
        for verb, path in described(ledger):
            asked = "/" + "/".join(re.sub(r"{.*}", "Workload", part) for part in path)
            found = await api.serve(Request(verb, asked))
            assert isinstance(found, Reply)
            # Without a name one gets as far as the route, and no further.
            is_open = {} in description(ledger)["paths"]["/" + "/".join(path)][verb.lower()].get("security", ())
            assert found.status == (200 if is_open else 401), (verb, asked, found)

    in_world(story)
