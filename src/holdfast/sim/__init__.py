"""The same shells in a world that is made up: time that jumps, so that an hour passes in a second, the same each run.

- `world`    machines, a network, stores, and the verbs for what happens to them
- `loop`     an event loop on virtual time
- `chance`   all chance of a run, from its seed
- `clock`    the clocks of a machine: wrong, fast, set, paused
- `machine`  a machine whose program crashes, restarts and pauses
- `network`  a network that delays, loses, repeats and cuts; `links` are its weather, `calls` what is under way
- `store`    a store that lands late, answers nobody, fills up and goes backwards; of `door`, `service` and `disk`
- `audit`    what a run did to a ledger, judged by its log alone
"""
