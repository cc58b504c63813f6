"""Statistics of comparisons: arrays in, frozen values out. They know nothing of runs, and need numpy and scipy alone.

- `intervals`: where a true mean lies, over seeds and problems
- `aggregates`: pass@k and maj@k, averages over problem sets, areas under curves
- `spread`: how far runs of one method lie apart, learnt from all methods of a leaderboard
- `differences`: of several methods to a baseline
- `family`: all tests of a leaderboard, corrected for each other
- `verdicts`: what may be said of each method
- `curves`: learning curves of several rows when all had spent the same
- `paired`: two methods on the same seeds
- `planning`: how many seeds find a difference, and when to add some

Scores are shares from 0 to 1. Differences and intervals are shares as well, not percentage points.
"""
