"""The program of a guard. It runs isolated, with the standard library only, so it adds the path of its own modules."""

import os
import sys

sys.path.append(os.path.abspath(os.path.join(__file__, *[os.pardir] * 4)))

from holdfast.agent.guard.guard import main

if __name__ == "__main__":
    main()
