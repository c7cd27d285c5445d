"""Everything that lasts for one term of one leader, and is discarded with it.

Independent of followers, controllers and streams.

- `lanes`            queued commands; which of them a batch takes, with guaranteed shares
- `refusal_cache`    refusals of this term, so that a duplicate is not decided twice; accepted ones are remembered by
                     `core.ledger.commit.dedup`
- `session_monitor`  sessions of agents, schedulers and regions: when each was renewed, and which have expired
- `term`             `LeaderTerm`: the volatile state of a leader; ledger time (`at` of each command), drawn slowly
                     towards the wall clock; the last proof of the term, its age, and so how long a renewal is worth
- `append`           one append; an unknown outcome is retried until the store settles it, or the time is up
- `group_commit`     decides what waits as one batch, appends it once, then answers and publishes; if the outcome stays
                     unknown, answers `outcome-unknown` and ends the term
- `dry_run`          commands that are decided and discarded
- `denials`          denied requests, aggregated and recorded in the log
- `scheduler_board`  the live schedulers of a region, and how their proposals fare
- `leader`           submit, renew (the answer to a heartbeat), prove
"""
