"""`holdfast dev`: a platform and three regions on this machine. Only the command line and benchmarks import it.

- `cluster`          start order, announcement, stop
- `data_folder`      dev.json, lock, ports, example
- `children`         child processes that are restarted
- `agents`           one agent process for each node
- `simulated_nodes`  many simulated nodes in one process
- `setup`            regions, agents and documents that the platform gets at each start
- `documents`        documents put through the API
"""
