"""Tasks and measures of the experiments that `experiments.yaml` declares."""
