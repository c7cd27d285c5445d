"""The Python SDK: one set of operations, two clients.

    AsyncClient  ──┐ runs                     ┌── SendRequest, Sleep, OpenStream, ReadMessage, EmitEvent
    Client       ──┴─▶ an operation (generator) ─┘   (`requester`: what an operation requests)

An operation is a generator without I/O: it yields effects and is resumed with their results. Retries, leader
redirects, idempotency keys, read-your-writes, pages and resumed watches are written once, and tested without a socket
or a clock. The package imports `api.kinds` and nothing else of `api`. It opens no socket and reads no file.

- `config`           servers, credentials, timeouts
- `errors`           problems as servers send them, and the exceptions that operations raise
- `paths`            the path of a kind and of an object
- `retry`            what follows a failed attempt: next server, back-off, or the final error; the pool of servers
- `requester`        effects of an operation; one request until it is answered; reads that include own writes
- `objects`          get, list, put, delete, batch, edit
- `reports`          status, whoami, can-i, quota, audit, repairs, queue, decisions, schema
- `watch_cache`      the objects that a watch has emitted
- `watch`            watches that resume by themselves, and `wait_for` on a watch
- `commands`         commands by their tag; sessions of machines: numbered commands, lease renewals
- `async_client`     `AsyncClient`, over any transport: operations as its methods
- `blocking_client`  `Client`: the same operations, blocking; importing it imports no event loop
"""
