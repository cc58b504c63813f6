"""The map of the zoo: what one update of each objective does, in a language small enough to know it exactly."""
