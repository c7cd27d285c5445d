"""The HTTP API of a server. Every module but `server` is pure.

Transports and client are elsewhere (`holdfast.transports`, `holdfast.client`) and are not imported here.

- `spelling`       the nearest known name, for hints
- `kinds`          the table of kinds: names, paths, columns; cheap to import, for client and command line
- `problems`       RFC 9457 problems: codes, the HTTP status of each refusal, hints
- `serialization`  types of the model to JSON or YAML and back
- `resources`      rows of a ledger's state as objects with kind, metadata, spec and status
- `openapi`        the OpenAPI document, generated from the tables
- `server`         the pipeline of one request, and a handler for every route
"""
