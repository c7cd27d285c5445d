"""The same shells in a world that is made up: time that jumps, so that an hour passes in a second, the same each run.

- `loop`  an event loop on virtual time, and the clocks of the machines in it
"""
