"""Small stand-ins for what is not written yet: controllers, scheduler, agents, people.

    people ──▶ platform servers ◀──link── region servers ◀──beats── agents ── metal, which really runs things
                (planners)                (replicas, health)  ◀──proposals── schedulers, each with a view of its own

They are honest and simple: each does what its real piece will do in the plainest way that is safe, over the network and
the stores of a world, around production ledgers, controllers and reads. Each is deleted when the real one comes.
"""
