"""The programs of a world's machines, and people.

    people ──▶ platform servers ◀──link── region servers ◀──sessions── agents ── metal, which really runs things
                (planners)                (replicas, health)  ◀──proposals── schedulers, each with a view of its own

They are production code around the network and the stores of a world, but for `planners`, where failover is a stand-in,
and the paths of `desk`, on which people and schedulers speak without proving who they are. What agents start is made
up: `metal` holds it, and `habits` say how it behaves.
"""
