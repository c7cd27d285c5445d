"""The OpenAPI 3.1 document of each ledger's server, generated from the tables of kinds and commands.

Nothing is written by hand for one kind or one command.

- `schemas`     schemas of replies that are not objects: status, audit, quota, problems
- `components`  headers, parameters, problem responses and bodies that operations share
- `operations`  the operations of kinds, batches, commands, machines and regions
- `document`    `description`: health, discovery, reports, and the complete document
"""
