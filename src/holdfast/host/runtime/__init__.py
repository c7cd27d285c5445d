"""What every process needs to run. Nothing here knows ledgers, regions or messages.

- `telemetry`       metrics (counters, gauges, histograms) and structured log lines
- `deadlines`       waits with an end, the first of several tasks, long work in steps
- `backoff`         exponential waits, jitter, a token bucket
- `clock_event`     an event that can be awaited until a deadline of the host's clock
- `supervisor`      long-lived tasks by name: restarted when they fail, given up when they keep failing
- `side_tasks`      supervised tasks that live as long as a main task
- `blocking_calls`  calls that may hang, each in a thread of its own
- `files`           files that are written atomically, and folders that are synced
- `gc_tuning`       the garbage collector at a million objects
"""
