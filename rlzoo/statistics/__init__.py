"""Statistics of comparisons: arrays in, frozen values out. They know nothing of runs, and need numpy and scipy alone.

- `intervals`: where a true mean lies, over seeds and problems
- `accuracy`: avg@k, pass@k and maj@k of one evaluation or of several seeds, with intervals
- `spread`: how far runs of one method lie apart, learnt from all methods of a page
- `differences`: of several methods to a baseline, and p-values for a whole family of them
- `paired`: two methods on the same seeds
- `page_tests`, `swept_baseline`: all tests of a page as one family, also against the best of several values
- `verdicts`: what may be said of each method
- `planning`, `sequential`: how many seeds find a difference, and when to add some
- `aggregates`, `macro_averages`: rliable's figures of several runs, and averages over problem sets

Scores are shares from 0 to 1. Differences and intervals are shares as well, not percentage points.
"""
