"""What ails a run, from the numbers that it logged: detectors over a table of metrics, and who reads such tables."""
