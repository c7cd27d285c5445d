"""The load processes that benchmarks start, each with its own `main`.

Contents: programs that run in another process than the measured server. They never judge a figure.

- `load_process`     starts such a process, exchanges lines of JSON with it; its HTTP connection
- `api_load`         sends commands or watches, for `bench api`
- `latency_load`     a constant rate of other requests, for `schedule.latency_busy_p99`
- `agent_load`       many agents in one process, for `agent.sessions2000`
- `node_load`        the nodes of every region, for `road.c1m_s`
"""
