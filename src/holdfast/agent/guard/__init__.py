"""The guard of one run: a program of its own that uses the standard library alone, so that it starts quickly.

- `guard`          one run from its order to its result; it ends and then kills the run at its deadline, whether or
                   not an agent lives
- `exec_commands`  commands that run beside the process while it lives, such as probes
- `child`          code of a forked child until it executes the process or a command
- `namespaces`     pids, mounts and IPC of the run's own, held by the first process in them
- `kernel`         processes, sessions and cgroups as the kernel shows them, and how to kill them
- `files`          the slot's folder: names, files written atomically, logs of bounded size
- `__main__`       the program: `python -I -S .../guard`

A guard imports everything at its start, so that no upgrade changes a guard that runs. The agent uses `kernel` and
`files` too: both work on the same folders and processes.
"""
