"""The command line: one module per noun.

- `main`   the application
- `bench`  `holdfast bench ...`
- `sim`    `holdfast sim ...`; `sim_shown` is what it prints
"""
