"""Durable changes to subscribers. Never ahead of durable state; publishing runs no subscriber code.

- `changes`       one change event, the changes of one batch, and the filter of a subscriber; changed keys
- `hub`           `WatchHub`: each batch to the subscriptions and key feeds that match it
- `subscription`  one resumable stream of change batches; one timer for thousands of idle streams
- `log_reader`    batches after a token (the cursor of a watch), read from the store; `Gone` if they were trimmed,
                  `Diverged` if the token is not in this log
"""
