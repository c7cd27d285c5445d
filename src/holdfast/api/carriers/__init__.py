"""The transport port over sockets: HTTP/1.1, with or without TLS. The name of a peer is its URL.

- `http`        `HttpTransport`: both halves in one, for servers and agents
- `answering`   the half that serves, behind uvicorn's parser
- `acceptor`    a connection's first moment: it is counted, and TLS begins
- `connection`  one client's connection to it; `gathering` lets it write an answer at once
- `connections` all of them, and who leaves when there are too many
- `asking`      the half that asks, on aiohttp
- `plain`       `PlainTransport`: asks and waits, without an event loop, for the command line
- `tls`         certificates, and the principal that one proves; `certificates` is what one says to people
- `tls_files`   those files, read again when they change
- `wire`        what all of them agree on: URLs, headers, framings
"""
