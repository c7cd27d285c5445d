"""Where logs are kept. All of them behave as `holdfast.host.store` says; one conformance suite holds them to it.

- `memory`  for tests and simulations
- `sqlite`  embedded: one folder, one process, nothing to install
"""
