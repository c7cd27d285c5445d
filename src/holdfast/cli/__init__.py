"""The command line: one module per noun, each imported only when its command is called.

How it begins
- `main`         where the program begins; the short way for a plain `get`
- `application`  all commands as one application, and the table of their names
- `commands`     how a command is defined; the options that all of them take
- `options`      those options as a value; how the work of a command ends

What commands share
- `contexts`     which servers, as whom: the file, the environment, flags
- `connect`      from there to a client; what a client's errors mean to people
- `troubles`     messages and exit codes
- `nouns`        which objects are meant: `wl/web`, `workload shop/web`
- `files`        documents from files, with the line of every field; `checking` without a server
- `paths`        `spec.replicas`, `status.conditions[Ready].status`
- `shown`        tables, JSON, YAML, times; `conditions` as people read them, and what regions have `told`
- `regional`     asking one region, or all; `reasons` why something waits, and what would change it

Commands
- `apply`, `diff`, `validate`, `delete`              files and objects
- `get` (what it does is in `getting`), `describe`, `wait`, `schema`
- `scale`, `restart`                                 workloads
- `status`, `audit`, `tokens`, `can_i`, `whoami`     the server, and who may do what
- `certificates`                                     an authority of one's own, and what it signs
- `repairs`, `regions`                               what hangs, and regions that do not answer
- `policies`                                         which scheduler policy is valid where
- `queue`, `decisions`, `explain`                    what waits, what was decided, and why (`explained` are its texts)
- `server`, `scheduler`, `dev`                       processes that stay
- `config`, `version`, `completion`                  this program
- `sim` (`sim_shown` is what it prints), `bench`     worlds that are not real, and figures that are
"""
