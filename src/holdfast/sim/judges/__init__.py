"""Judges of a run, each written apart from whom it judges: from stored rows and events, by plain loops.

None of them imports a gate, a controller or a scheduler: what these have in common with those they judge is the model.

- `counted`    what stands on nodes, what it takes and who pays, counted anew from the stored rows of a region
- `placement`  what could be placed, and which codes really keep what waits: an oracle for liveness
"""
