"""The regional scheduler, pure: what it knows of nodes, in which order it looks at requests, and what it chooses.

    state ──▶ NodeTable (arrays) ──┐
    state ──▶ Queue (groups)   ────┴─▶ pass: filter, score, fill ──▶ proposals with evidence ──▶ the ledger judges

Nothing here decides that anything is so. The arrays are a view that may be old; filters are hints that agree with the
ledger's gates; whatever is chosen is proposed, and the ledger accepts or refuses it (ARCHITECTURE 5).
"""
