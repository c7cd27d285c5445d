"""The typed client: one set of calls, two faces.

    Holdfast (aio)  ──┐ drives              ┌── Send, Pause, Open, Next, Emit
    HoldfastSync    ──┴─▶ a call, a generator ─┘   (steps: what a call wants done)

A call is a generator that does no I/O: it yields what it wants done and is resumed with what came of it. So retries,
following the leader, idempotency keys, read-your-writes, pages and the resumption of watches are written once, and
tested without a socket or a clock.

- `access`    where the servers are, who is asking, and how patient they are
- `steps`     what a call may want done
- `problems`  problems as servers write them, and the errors that calls raise
- `paths`     the path of a kind and of an object
- `servers`   which server to ask, and how far this client's own writes have come
- `tries`     what follows a failed attempt: where to go next, how long to wait, when to give up
- `asking`    one request until it is answered; reads that see this client's own writes
- `objects`   reading and writing objects: get, list, put, delete, batch, edit
- `commands`  commands, and questions to the server itself
- `watching`  watches that never end by themselves; `known` is what a watch has handed out
- `waiting`   waiting for an object, on a watch
- `speaker`   machines: sessions, numbered commands, heartbeats
- `aio`       `Holdfast`: the async face, over any `Transport`
- `sync`      `HoldfastSync`: the blocking face; importing it imports no event loop
"""
