"""Failure modes of a run in the numbers that it logged: detectors over tables of metrics, and their readers."""
