"""The HTTP API of a server. Everything here is pure except `server`.

The transports and the client lie outside: `holdfast.transports`, `holdfast.client`. Neither is imported here.

- `spelling`       the nearest known word, for hints
- `kinds`          the table of kinds: names, paths, columns; it imports nothing heavy, so client and CLI may read it
- `problems`       RFC 9457 problems: codes, statuses, hints
- `serialization`  types of the model to JSON or YAML and back
- `resources`      rows of a ledger's state as objects with kind, metadata, spec and status
- `openapi`        the OpenAPI document, generated from the tables
- `server`         the pipeline of one request, and a handler for every route
"""
