"""Metrics and log lines of a process. Hosts count metrics by name and never import this package.

- `catalog`     every metric: kind, labels, help; `tests/architecture/test_metrics.py` compares it with the code
- `prometheus`  GET /metrics
- `log_writer`  log lines to a descriptor whose reader may have stopped reading
- `log_output`  text or JSON lines on standard error; foreign text is escaped, indented, its secrets redacted
"""
