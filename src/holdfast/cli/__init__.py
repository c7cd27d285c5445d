"""The command line: one module per noun.

- `main`   the application
- `bench`  `holdfast bench ...`
"""
