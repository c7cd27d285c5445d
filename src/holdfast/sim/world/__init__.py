"""Virtual time, machines, network and stores of a simulation.

Lives here: implementations of the clock, transport and store ports that fail on purpose. Must not: use a ledger of
Holdfast beyond these ports, read a scenario, check anything.

- `virtual_loop`      an event loop and a clock on virtual time
- `machine`           a machine whose program starts, crashes, pauses and restarts; its clocks; random streams
- `links`             how latency, loss, duplication and partitions act between machines
- `calls`             one request or stream between two incarnations
- `network`           the transport port over `links` and `calls`
- `disk`              what is durable in a simulated store
- `store_service`     the store service: its disk, its paths, its pending work
- `store_connection`  one server's connection to a store: the store port
- `store`             a store service with one connection per server
- `world`             machines, network and stores together, and the faults that `sim.cluster.fault_injection` calls
"""
