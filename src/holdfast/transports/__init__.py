"""The transport port over sockets: HTTP/1.1, with or without TLS. The name of a peer is its URL.

This package moves requests, replies and streams, and limits the cost of a connection. It contains no route, no
permission and no JSON body. It imports neither `api` nor `client`; `stores` is its sibling.

- `http_framing`         URLs, hop-by-hop headers, NDJSON lines and length-prefixed frames
- `tls`                  TLS contexts, and the principal that a certificate proves
- `certificates`         subject, hosts, principal and end of a certificate
- `tls_reloader`         TLS files, loaded again when they change
- `connection_registry`  all accepted connections, their limits, and which one is closed when there are too many
- `http_connection`      one accepted connection: size limits, timeouts, coalesced writes
- `http_server`          the ASGI application: request in, reply or stream out
- `http_client`          outgoing requests on aiohttp, each sent once
- `http_transport`       `HttpTransport`: server and client in one, for servers and agents; counts new connections
- `blocking_http`        `BlockingHttpTransport`: without an event loop, for the command line
"""
