"""Rows of a ledger's state as the objects that callers read, and documents as the objects that they write.

Nothing here does I/O or checks permissions: `server.visibility` and `server.redaction` do.

- `tables`           which rows of which table are objects of a kind, their names and labels
- `lookup`           one row by its name
- `ownership`        the tenant of an object
- `platform_types`   objects of both ledgers without a document of the model: assignments, grants, policies, overrides
- `region_types`     objects of a region: nodes, replicas, endpoints, scheduling requests, reservations
- `reported_types`   workloads and regions with what regions reported
- `decision`         one scheduling decision as an object
- `rendering`        a row as an object, and as plain JSON values
- `writable`         the kinds that operators and tenants write, parsed
- `validation`       checks of an object without a server, by the ledger's own code
- `command_catalog`  the commands of each ledger by tag, and which of them a user may send
- `schemas`          JSON Schema of a kind and of a command
"""
