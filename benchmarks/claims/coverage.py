"""Judges what coverage.yaml registered, by the `answers.parquet` of its runs.

python benchmarks/claims/coverage.py ANSWERS.parquet
"""

import sys

import numpy as np
import pandas as pd
from scipy import stats

answers = pd.read_parquet(sys.argv[1])
answers = answers[answers["decoding"].str.startswith("T=0.7,")]
solved = answers.groupby(["seed", "method", "problem"])["value"].max() == 1
found = solved.groupby(["seed", "method"]).mean().unstack()
asked = []
for twin, bound, side in (("untrained", -0.03, "less"), ("justrl", 0.0, "two-sided")):
    for row in found.columns.difference(["untrained", twin]):
        differences = (found[row] - found[twin]).dropna()
        effect, reach = differences.mean(), stats.t.isf(0.025, len(differences) - 1) * differences.sem()
        p_value = stats.ttest_1samp(differences, bound, alternative=side).pvalue
        asked.append((row, twin, len(differences), found[row].mean(), effect, effect - reach, effect + reach, p_value))
table = pd.DataFrame(asked, columns=["row", "beside", "seeds", "pass@16", "effect", "low", "high", "p"])
table = table.fillna({"p": 1.0}).sort_values("p", kind="stable")
table["p_holm"] = (table["p"] * np.arange(len(table), 0, -1)).cummax().clip(upper=1.0)
print(table.to_string(index=False, float_format="%.4f"))
