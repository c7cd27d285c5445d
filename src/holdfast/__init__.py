"""Holdfast, a distributed scheduler control plane.

The name: *hold*, no forbidden state becomes true; *fast*, eligible work keeps moving, locally, while other parts of the
system are slow or unreachable. The layout follows one idea: every decision is a pure function, and the decisions are a
log.

Imports point one way, from the top of this map to the bottom; `make check` fails on one that does not.

    cli         the `holdfast` command, one folder for each group of commands
    bench       benchmarks, started by the command line only
    sim         the control plane on virtual time, put together by `wiring`
    wiring      the composition root: server, scheduler, agent, `holdfast dev`
    client      the Python client
    api         kinds, serialization, resources, OpenAPI, the server
    transports  the transport port over HTTP, and within one process
    agent       the node agent, its drivers and guards
    stores      engines of the store port
    observe     metric catalog, exporter, log output
    replay      recordings of logs, refolded and compared
    host        the code around the core: ports, storage, leader, ledger, streams, controllers, scheduler, link
    core        pure: no I/O, no clock, no randomness
      scheduling, reconcilers, agent   senders of proposals, commands and reports
      platform, region                 the two ledgers
      ledger                           the common part of both ledgers
      model                            structs of the domain
    examples    the workloads of the example platform; imports nothing of Holdfast
"""

__version__ = "0.1.0"
