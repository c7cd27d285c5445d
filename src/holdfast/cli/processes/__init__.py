"""Commands that start a long-running process.

- `machine_options`  options that agents and schedulers share
- `server`           a server of the platform or of a region
- `scheduler`        a standalone scheduler of a region
- `agent`            the agent of a node
- `dev`              a platform and three regions on one machine
"""
