"""Reads printed equations and calculates their gradients from the text alone; `reader` says how."""
