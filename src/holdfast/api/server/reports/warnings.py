"""Warnings for operators, shown by `status`: one sentence for each thing that works but needs attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.core.ledger.commit.authorization import MACHINES
from holdfast.core.model.objects.principals import Principal, Token
from holdfast.core.model.objects.topology import Region, RegionHealth
from holdfast.core.model.records.region_reports import Trouble
from holdfast.core.model.values.addresses import origin
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.decide.object_kinds import OF_REGIONS
from holdfast.core.region.queries.region_summary import exposing
from holdfast.host.runtime.deadlines import run_in_steps

#: By reason: what is unsafe on nodes, although it works.
_UNSAFE = {
    ConditionReason.USER_SHARED: "tenants share a user on",
    ConditionReason.TOKEN_READABLE: "replicas can read the token of the agent on",
}


def region_warnings(state: Any) -> list[str]:
    """Return the warnings of this ledger's regions."""
    regions = state.regions.values() if hasattr(state, "regions") else ()
    return [said for region in regions for said in _of_region(region)]


def token_warnings(state: Any, now: Instant) -> list[str]:
    """Return the warnings of valid tokens that stand for several machines: for callers who may see all tokens."""
    return [said for token in state.tokens.values() for said in _of_token(state, token, now)]


def _of_token(state: Any, token: Token, now: Instant) -> Iterator[str]:
    """Yield the warning of a token for all machines of a kind, or for all regions. If no option allowed it, the token
    is older than the rule, or its principal has changed."""
    spec, kind = token.spec, token.spec.principal.partition("/")[0]
    if kind not in MACHINES or spec.revoked or spec.expires <= now:
        return
    if spec.principal.endswith("/*"):
        yield f"token {token.meta.name} is valid for every {kind}: create one for each, then revoke it"
        return
    if kind not in OF_REGIONS:
        return  # the region's name is its scope
    principal: Principal | None = state.principals.get(spec.principal) or state.principals.get(f"{kind}/*")
    if principal is not None and not principal.spec.scope.region:
        yield f"token {token.meta.name} is valid for {spec.principal} in every region: set one in its scope"


def _of_region(region: Region) -> Iterator[str]:
    name, written, reported = region.meta.name, region.spec.address, region.status.address
    if region.status.health is RegionHealth.RETIRED or not reported:
        return
    if not written:
        yield f"region {name} reports the address {reported}, but its spec has none: nothing is sent there"
    elif origin(written) != origin(reported):
        yield f"region {name} reports the address {reported}, but its spec has {written}: requests go to the latter"


async def node_warnings(state: Any) -> list[str]:
    """Return warnings of unsafe nodes here, or in the regions' last reports. They name nodes, not tenants."""
    if hasattr(state, "nodes"):
        return [_unsafe(one, "") for one in await run_in_steps(exposing(state))]
    told = ((region, one.summary.troubles) for region, one in state.summaries.items())
    return [_unsafe(one, f"region {region}: ") for region, some in told for one in some if one.kind in _UNSAFE]


def _unsafe(trouble: Trouble, where: str) -> str:
    return f"{where}{_UNSAFE[ConditionReason(trouble.kind)]} {trouble.count} nodes: {trouble.message}"
