"""The same shells in a world that is made up: time that jumps, so that an hour passes in a second, the same each run.

The world:

- `world`     machines, a network, stores, and the verbs for what happens to them
- `loop`      an event loop on virtual time
- `chance`    all chance of a run, from its seed
- `clock`     the clocks of a machine: wrong, fast, set, paused
- `machine`   a machine whose program crashes, restarts and pauses
- `network`   a network that delays, loses, repeats and cuts; `links` are its weather, `calls` what is under way
- `store`     a store that lands late, answers nobody, fills up and goes backwards; of `door`, `service` and `disk`

A run in it:

- `scenario`  a file that says where it takes place, what people do, what goes wrong, what must be seen
- `plan`      what will happen, drawn from the seed; `troubles` let it happen
- `scene`     the machines of a scenario and what they run; `actors` are their programs
- `run`       one run, and its report; `swarm` many, with their `coverage`; `shrink` makes a failing one smaller

Who judges it:

- `audit`     what a run did to a ledger, by its log alone; `across` what it did to all of them together
- `liveness`  whether everything came to rest where it should; `recovery` how long a lost region was missed
- `explained` whether a decision is found for each slot that stands on a node
- `chronicle` all records in their order; `counts` how often what happened; `answers` the six questions

Recordings:

- `recording` the file; `recorder` writes it, from a run or from a real ledger
- `effects`   what each event changes; `refold` and `compare` find the first one that differs, a `divergence`
"""
