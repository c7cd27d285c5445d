"""The shells around the pure core: asyncio, and ports to everything outside.

- `store`      the port to where a log is kept: head, append, snapshots, room
- `clock`      the port to time, and this machine's clocks
- `transport`  the port to other processes
- `meters`     counters, gauges and timings of a host
- `journal`    structured logs
"""
