"""What every process needs to run, independent of ledgers, regions and messages.

- `telemetry`       metrics (counters, gauges, histograms) and structured log lines
- `deadlines`       waits with a deadline, events with one, the first of several tasks, long work in steps
- `backoff`         exponential back-off, jitter, a token bucket
- `supervisor`      long-lived tasks by name, restarted or given up; side tasks that run as long as a main task
- `blocking_calls`  calls that may block, each in a thread of its own
- `files`           files that are written atomically, and folders that are synced
- `gc_tuning`       the garbage collector at a million objects
"""
