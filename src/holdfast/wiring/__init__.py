"""Servers put together from their parts, and a platform in one command.

- `settings`        what a server is told, and why: one table
- `sources`         defaults, file, environment, flags
- `contradictions`  sets that are refused
- `opening`         stores by their URL, and whose log is in one
- `private`         files that their owner alone can read
- `tokens`          tokens in such files
- `files`           how many files a process may have open
- `logs`            what happens, as lines on standard error
- `bootstrap`       the operator's first token
- `credentials`     what a machine shows to a ledger
- `pieces`          what a server is put together from
- `ports`           what a server has of its machine; the simulator has others, and the same server
- `node`            the agent of a node, put together
- `plugins`         what schedulers ask and weigh, by entry point
- `server`          one server: from settings to its exit code
- `scheduler`       one scheduler in a process of its own: from what it is told to its exit code
- `parts`           child processes that come back
- `first`           what a new platform is told first, through its API
- `dev`             a platform and three regions on this machine; `dev_folder` where they are kept; `declared` its nodes
"""
