"""Everything that lasts for one term of one leader, and is discarded with it.

Independent of followers, controllers and streams.

- `lanes`            queued commands, with guaranteed shares of a batch
- `refusal_cache`    refusals of this term, so that a duplicate is not decided twice
- `session_monitor`  sessions of agents, schedulers and regions: when each was renewed, and which have expired
- `term`             `LeaderTerm`: the volatile state of a leader; the timestamps of its commands; the last proof of the
                     term, its age, and so how long a renewal is worth
- `append`           one append; an unknown outcome is retried until the store settles it, or the leader steps down
- `group_commit`     decide, append once, then answer and publish; ends the term if the outcome stays unknown
- `dry_run`          commands that are decided and discarded
- `denials`          denied requests, aggregated and recorded in the log
- `scheduler_board`  the live schedulers of a region, and how their proposals fare
- `leader`           submit, renew (the answer to a heartbeat), prove
"""
