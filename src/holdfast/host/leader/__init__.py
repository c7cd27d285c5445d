"""Everything that lives for one term of one leader, and is dropped with it.

Nothing here knows followers, controllers or streams.

- `lanes`            queued commands, with guaranteed shares of a batch
- `refusal_cache`    refusals of this term, so that a duplicate is not judged twice
- `ledger_time`      the stamps of a leader
- `session_monitor`  which session was renewed when, and which have expired
- `term_proof`       the last proof of this term, and how old it is
- `term`             `LeaderTerm`: what a leader holds beside the log
- `append`           one append, retried to its outcome
- `group_commit`     decide, append once, then answer and publish
- `dry_run`          commands that are judged and discarded
- `denials`          denied requests, summed up and recorded in the log
- `leader`           submit, renew, prove
"""
