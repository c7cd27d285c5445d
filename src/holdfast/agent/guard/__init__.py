"""The guard of one replica: a program of its own, in the standard library alone, so that it starts quickly.

- `guard`     one replica, from its order to its result: the deadline, the line to agents, the end
- `commands`  what else runs for the replica while it lives: its probes
- `child`     what a fork of the guard does until it is the process, or a command
- `namespaces`  pids, mounts and IPC of the replica's own, held by the first process in them
- `kernel`    what the kernel tells of processes, sessions and cgroups, and how they are killed
- `files`     what lies in the slot's folder: names, whole files, logs
- `__main__`  the program: `python -I -S .../guard`

Nothing is imported later than at its start, so that no upgrade changes a guard that runs. The agent uses `kernel` and
`files`, too: both speak of the same folders and processes.
"""
