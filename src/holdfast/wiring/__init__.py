"""The composition root: the only package that imports every implementation. Logic belongs to the parts.

- `process`                startup error, exit codes, signals, status lines, open-file limit
- `config`                 settings of a process, and the secrets it holds
- `storage`                opens the server's store, and checks whose log it holds
- `operator_token`         the operator's first token
- `certificate_authority`  certificates for servers, machines and users
- `server_ports`           a server's access to its machine (the simulator has its own): transport, limits, credentials,
                           and the prober of endpoints
- `server`                 one server, from settings to exit code
- `machine`                what agents and schedulers have in common
- `scheduler`              `holdfast scheduler`, and scheduler plugins by entry point
- `agent_parts`            an agent put together, for a real, declared or simulated node
- `agent`                  `holdfast agent`
- `dev`                    `holdfast dev`
"""
