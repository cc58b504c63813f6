"""The behaviour suite: small trainings in which a trouble is there on purpose, and the truth is known.

- `experiment`: what an experiment is: a task, a starting policy, arms, a score, controls and claims
- `micro`: what their tasks share
- `experiments`, `catalogue`: one file each, of this package; and those from outside, by name
- `cell`, `trained`: one arm, trained on one seed by the loop that trains everything, and scored
- `cells`, `source`: which cells there are to be, what makes two the same, and the file that keeps them
- `running`: trains what is missing, several at a time
- `results`, `claims`, `contrasts`: what cells say; verdicts on claims; who is told apart from whom
"""
