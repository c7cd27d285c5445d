"""The program of a guard. Isolated, it finds the standard library alone: it is shown where its other modules are."""

import os
import sys

sys.path.append(os.path.abspath(os.path.join(__file__, *[os.pardir] * 4)))

from holdfast.agent.guard.guard import main

if __name__ == "__main__":
    main()
