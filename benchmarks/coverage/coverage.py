"""How often the 95 % interval of a paired difference covers the truth: `python benchmarks/coverage/coverage.py 2000`.

Each comparison is simulated whole: problems of very different difficulty, two methods whose true accuracies differ by
four points on average and by more or less on each problem, trained models that deviate from their method, once as a
whole (seed effect) and on each problem, and binomial answers.
"""

import itertools
import sys

import numpy as np

from rlzoo.evaluation.statistics import distribution

DIFFERENCE = 0.04
SIZES = ((3, 30, 32), (3, 512, 8), (5, 512, 8))
SEED_EFFECTS = (0.0, 0.01, 0.03)
PROBLEM_EFFECTS = (0.0, 0.1)


def simulate(
    generator: np.random.Generator, size: tuple[int, int, int], seed_effect: float, problem_effect: float
) -> np.ndarray:
    """[seeds, problems] paired differences; the effects are standard deviations of the difference."""
    seeds, problems, samples = size
    difficulty = 0.2 + 0.6 * generator.beta(0.7, 0.7, size=problems)
    effect = DIFFERENCE + problem_effect * generator.uniform(-1, 1, size=problems) * np.sqrt(3)

    def run(sign: float) -> np.ndarray:
        whole = seed_effect / np.sqrt(2) * generator.normal(size=(seeds, 1))
        each = 0.05 * generator.uniform(-1, 1, size=(seeds, problems))
        rate = np.clip(difficulty + sign * effect / 2 + whole + each, 0, 1)
        return generator.binomial(samples, rate) / samples

    return run(+1.0) - run(-1.0)


def resampled_plainly(generator: np.random.Generator, scores: np.ndarray, resamples: int = 500) -> tuple[float, float]:
    """The interval of a bootstrap that resamples seeds and problems, for comparison."""
    seeds, problems = (generator.multinomial(n, [1 / n] * n, size=resamples) / n for n in scores.shape)
    low, high = np.quantile(((seeds @ scores) * problems).sum(axis=1), (0.025, 0.975))
    return float(low), float(high)


def main(repetitions: int) -> None:
    """Prints a Markdown table."""
    print("| seeds | problems x samples | problem effect | seed effect | covered | half width | plain bootstrap |")
    print("|---|---|---|---|---|---|---|")
    for size, problem_effect, seed_effect in itertools.product(SIZES, PROBLEM_EFFECTS, SEED_EFFECTS):
        generator = np.random.default_rng(0)
        covered, plainly, widths = 0, 0, list[float]()
        for repetition in range(repetitions):
            scores = simulate(generator, size, seed_effect, problem_effect)
            known = distribution(scores, size[2])
            covered += 0.025 <= known.below(DIFFERENCE) <= 0.975
            if repetition % 10 == 0:
                low, high = known.interval()
                widths.append((high - low) / 2)
            low, high = resampled_plainly(generator, scores)
            plainly += low <= DIFFERENCE <= high
        shares = f"{covered / repetitions:.1%} | {100 * np.mean(widths):.1f} | {plainly / repetitions:.1%}"
        effects = f"{100 * problem_effect:.0f} | {100 * seed_effect:.0f}"
        print(f"| {size[0]} | {size[1]} x {size[2]} | {effects} | {shares} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
