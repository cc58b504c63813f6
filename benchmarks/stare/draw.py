"""Draws entropy and accuracy over the steps of some runs.

python benchmarks/stare/draw.py OUTPUT.png NAME=METRICS.jsonl ...
"""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import seaborn as sns

sns.set_theme(style="whitegrid")
figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for word in sys.argv[2:]:
    name, _, path = word.rpartition("=")
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    for axis, measure in zip(axes, ("entropy", "accuracy"), strict=True):
        axis.plot([line["step"] for line in lines], [line[measure] for line in lines], label=name, alpha=0.9)
axes[0].axhspan(0.2, 0.3, color="grey", alpha=0.15, label="target 0.25, band of 0.05")
axes[0].set(title="entropy of the rollouts (nats)", xlabel="step")
axes[1].set(title="accuracy of the rollouts", xlabel="step")
axes[0].legend(fontsize=8)
figure.savefig(sys.argv[1], dpi=120)
