"""The version of both distributions, `rlzoo-objectives` and `rlzoo-llm`."""

VERSION = "0.1.0"
