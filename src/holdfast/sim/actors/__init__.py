"""The programs of a world's machines, and people.

    people ──▶ platform servers ◀──link── region servers ◀──sessions── agents ── metal, which really runs things
    (API client)  (planners)              (a scheduler beside) ◀──proposals── schedulers apart, each with a mirror

Servers, schedulers and agents are put together by `wiring`, over the network, stores, files and chance of a world;
people, readers and storms speak through the API client with tokens. What is left of stand-ins is listed in
docs/correctness.md: failover (`planners`), a plugin that reserves first (`two_steps`), what agents start (`metal`, and
`habits` say how it behaves), and a server that an upgrade left out.
"""
