"""The workloads of the example platform. Standard library only; manifests name these modules.

Lives here: programs that a node starts. Must not: import Holdfast.

- `service`  an HTTP service, with switches for what services do wrong
- `batch`    a batch job that saves its progress
- `worker`   a worker that holds much memory
"""
