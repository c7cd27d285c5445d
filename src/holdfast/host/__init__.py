"""The shells around the pure core: asyncio, and ports to everything outside.

Ports
- `store`         where a log is kept: head, append, snapshots, room
- `clock`         time, and this machine's clocks
- `transport`     other processes; `local` is the one within a process; `wire` what machines say over it, and `voice`
                  how they say it: a session, numbered commands, heartbeats

A ledger's life
- `ledger`        load, follow, stand, lead, step down: one server's part
- `load`          from a store to a state
- `follower`      reads the log as it grows; `terms` says when it stands
- `leader`        the term it stands for, its proofs, what others ask of it
- `term`          everything that lives as long as one term
- `group_commit`  decide what waits, append once, then answer; `commit` sees one append to its end
- `lanes`         what waits, with guaranteed shares; `refusals` are not judged twice; `denials` go on record
- `trial`         a command tried out, and thrown away
- `proof`, `sessions`, `ledger_time`, `room`   what a leader's word is worth, who lives, what time it is, how full
- `durable`       the state that readers see; `reads` names the levels, `health` the condition
- `snapshots`, `digests`                       what is kept beside the log, and what is compared with it
- `decisions`     decisions found again, read by `decisions_read`; `kept` is the port to where they are

Between ledgers
- `link`          log shipping from the platform to a region, and what the region says in return
- `mirror`        a ledger's state in another process, folded there from its log
- `streams`       what the streams of both have in common

Watching and acting
- `watch`         the hub: changes by key; `subscription`, `backlog` and `changes` are its parts, `rounds`
                  tells those who hear of nothing that they are heard
- `reconcile`     the runner of controllers; `controllers` runs it beside a leader
- `controller`, `proposing`, `workqueue`       one controller at work, what it sends, what waits for it
- `scheduling`    a scheduler at work; `scheduling_beside` the leader, `scheduling_apart` in a process of its own
- `supervise`, `beside`                        long-lived tasks, restarted and given up; `waiting` for deadlines
- `errors`        what a host says instead of an answer, and what stops it
- `meters`, `journal`, `collector`             numbers (listed in `metrics`), logs, the garbage collector at size
- `exports`       numbers for whoever collects them
- `lines`         what others said, so that it begins no line of a log and holds no secret
"""
