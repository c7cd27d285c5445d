"""Hypothesis profiles: how hard to search, and whether to repeat the same search.

    dev    new examples in every run; the default at a desk
    ci     the same examples in every run, so that a red build stays red; the default when CI is set
    soak   new examples and many of them; `make soak`
    mutants  those of ci, and a failure is not made smaller: that there is one is enough

HOLDFAST_HYPOTHESIS_PROFILE names one by hand.
"""

import os

from hypothesis import Phase, settings

# No profile sets a deadline per example: a busy machine is not a finding. pytest-timeout ends what hangs.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))
settings.register_profile("soak", deadline=None, max_examples=2_000, print_blob=True)

settings.load_profile(os.environ.get("HOLDFAST_HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))
