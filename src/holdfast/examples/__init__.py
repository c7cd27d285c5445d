"""The workloads of `make run`: a service, a batch job, a worker with much memory. Standard library only."""
