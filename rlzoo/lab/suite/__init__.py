"""The behaviour suite: small trainings in which a failure mode is there on purpose, and the truth is known.

- `experiment`, `experiments`: what an experiment is; one file each, and those from outside by name
- `micro`, `lookup`, `oracles`, `measures`: tasks, parts that know the truth, and scores that experiments share
- `cells`: which cells there are to be, what makes two the same, and the file that keeps them
- `training`: trains and scores what is missing, by the loop that trains everything, several cells at a time
- `verdicts`, `suite`: results by arm, verdicts on claims, which arms are distinguished; one table of all
- `view`, `figures`: what is shown of it
"""
