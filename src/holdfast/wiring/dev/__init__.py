"""`holdfast dev`: a platform and three regions on this machine. Nothing but the CLI and benchmarks imports it.

- `cluster`          start order, announcement, stop
- `data_folder`      dev.json, lock, ports, example
- `children`         child processes that are restarted
- `agents`           one agent process for each node
- `simulated_nodes`  many simulated nodes in one process
- `setup`            what the platform is given at start
- `documents`        documents put through the API
"""
