"""The composition root: the only place that knows every implementation. Logic belongs to the parts.

- `process`                startup error, exit codes, signals, status lines, open-file limit
- `config`                 what a process is configured with, and the secrets it holds
- `storage`                opens the server's store, and checks whose log it holds
- `operator_token`         the operator's first token
- `certificate_authority`  certificates for servers, machines and people
- `endpoint_prober`        endpoint probes over sockets
- `plugins`                scheduler plugins by entry point
- `server_parts`           transport, limits and credentials from settings
- `server_ports`           what a server has of its machine; the simulator has others, and the same server
- `server`                 one server, from settings to exit code
- `machine`                what agents and schedulers have in common
- `scheduler`              `holdfast scheduler`
- `agent_parts`            an agent put together, for a real, declared or simulated node
- `agent`                  `holdfast agent`
- `dev`                    `holdfast dev`
"""
