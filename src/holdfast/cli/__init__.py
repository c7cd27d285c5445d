"""The `holdfast` command. Each command has its own module, imported only when it runs.

Machinery. It formats no particular reply.
- `main`             entry point, and the fast path of a simple `get`
- `app`              all commands as one application: the table of names, modules and help lines
- `command`          the `@command` decorator; options and arguments that commands share; completion
- `options`          global options as a value; how a command ends
- `errors`           messages, hints and exit codes
- `context`          servers and credentials: file, environment, flags
- `targets`          the object that a command names: `wl/web`, `workload shop/web`; words of other systems
- `connect`          from a context to a client, or to those of regions; from a client's error to a message
- `documents`        documents from files with the line of every field, checked without a server, grouped by server

Output: `output/`. Columns of `get` are in `api.kinds`; every other command has its columns in its own module.
Commands: one folder per group; a module has the name of its command:
- `objects/`     apply, get, describe, delete, diff, validate, wait, schema
- `workloads/`   scale, restart, endpoints, queue, decisions, explain
- `operations/`  status, quota, audit, repair, region, policy
- `setup/`       config, token, certificate, whoami, can-i, version, completion
- `processes/`   server, agent, scheduler, dev
- `tools/`       sim, bench

`get` must stay fast: `main`, `options`, `errors`, `context`, `targets`, `connect`, `output.printer` and
`objects.listing` import no typer, YAML, asyncio or logging at their top.
"""
