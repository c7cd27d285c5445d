"""What runs on a node: drivers, which start and end processes, and guards, which end them when nobody else does.

- `driver`     the port: what is to run, what lives, why something could not start
- `process`    a driver of real processes, with cgroups where it may use them
- `guard`      the parent of one replica's process and of all that runs for it, and its fence; a program of its own
- `machine`    which machine this is, and which life of it
- `times`      the region's numbers that the agent acts by
- `simulated`  a driver without processes, on any clock, for simulations and for scale
"""
