"""Holdfast, a distributed scheduler control plane.

*Hold*: no forbidden state becomes true. *Fast*: eligible work keeps moving, locally, while other parts of the
world are slow or gone. The one idea behind the layout: everything that decides is a pure function, and what
has been decided is a log.

Imports point one way, from the top of this map to the bottom; `make check` fails on one that does not.

    cli        the `holdfast` command, one module per noun
    bench      benchmarks, started by the command line only
    core       pure: no I/O, no clock, no randomness
      platform   the global ledger: tenants, quota, policy, desired workloads
      region     one ledger for each region: nodes, slots, reservations
      ledger     what both ledgers share: envelope, answers, sessions, codec, digests
      model      what exists: objects, resources, conditions, the lifecycle table
"""

__version__ = "0.1.0"
