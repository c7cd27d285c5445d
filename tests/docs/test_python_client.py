"""The examples of the client's guide are run, one after the other, against servers: two of a platform, and a region."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from holdfast.client.config import ClientConfig
from holdfast.core.model.objects.principals import format_token
from holdfast.core.platform import commands as p
from tests.support.api.api_cluster import OPERATOR, a_class, a_tenant, secret_of
from tests.support.api.cluster_over_transport import ClusterOverTransport
from tests.support.api.loopback_cluster import serving
from tests.support.ledgers.platform import a_principal, a_region

GUIDE = Path(__file__).parents[2] / "docs" / "use" / "python-client.md"


async def a_platform(world: ClusterOverTransport) -> dict[str, str]:
    """What the guide calls its servers and its tokens, and what those are here."""
    first, second = await world.two()
    client = await world.client(first)
    assert [one.outcome for one in await client.batch([a_class(), a_tenant()])] == ["created"] * 2
    for region in ("eu", "us"):
        await first.submit(OPERATOR, p.Put(a_region(region)), key=region)
        await first.submit(OPERATOR, p.Put(a_principal(f"region/{region}")), key=f"region/{region}")
        token = world.token(f"region-{region}", f"region/{region}")
        await first.submit(OPERATOR, p.Put(token), key=f"token of {region}")
    eu = await world.region("eu", first, second)
    await first.submit(OPERATOR, p.Put(a_region("eu", address=eu.name)), key="where eu is")
    await world.until(lambda: eu.state.tokens.get("operator") is not None and len(eu.state.platform_servers) == 2)
    await world.until(lambda: bool(second.state.regions["eu"].spec.address))
    return {
        "https://a.example:7400": first.name,
        "https://b.example:7400": second.name,
        f"hf_ci_{'0' * 43}": format_token("operator", secret_of("operator")),
        f"hf_us_{'0' * 43}": format_token("region-us", secret_of("region-us")),
    }


def examples() -> list[tuple[int, str]]:
    """Each block of Python, and the line on which it begins."""
    text = GUIDE.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text[: match.start(1)].count("\n"), match.group(1)) for match in found]


def test_the_examples_of_the_guide_run() -> None:
    blocks = examples()
    assert len(blocks) > 8
    names: dict[str, Any] = {}
    with serving(a_platform) as here:
        for above, block in blocks:
            for said, meant in here.items():
                block = block.replace(said, meant)
            # Blank lines above, so that a failure names the line in the guide.
            exec(compile("\n" * above + block, str(GUIDE), "exec"), names)
        names["transport"].close()


def test_the_settings_in_the_guide_are_those_of_the_client() -> None:
    table = GUIDE.read_text(encoding="utf-8").split("| setting | default | meaning |")[1].split("\n\n")[0]
    fields = {name for name in ClientConfig.__struct_fields__ if name != "agent"}
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == fields
    assert [name for name in re.findall(r"`(\w+_ms)`", GUIDE.read_text(encoding="utf-8")) if name not in fields] == []
