"""Commands for operators of the platform.

- `status`  leader, degraded parts, age of each region's report
- `quota`   what each tenant may use, is granted and uses: one table by resource (RESOURCE, HARD to EFFECTIVE), one by
            region (REGION to LAST REPORT); the columns of `get quotas` are in `api.kinds`
- `audit`   who sent which command
- `repair`  operations that have not completed
- `region`  address of a region; declare it lost, attest, forget
- `policy`  activate, inspect and roll back scheduler policies
"""
