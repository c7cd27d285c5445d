"""The workloads of the example platform. Standard library only; documents name these modules.

Lives here: programs that a node starts. Must not: import Holdfast.

- `service`  an HTTP service, with switches for typical failures
- `batch`    a batch job that saves its progress
- `worker`   a worker that uses much memory
"""
