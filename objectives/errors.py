"""The one error of the zoo."""


class ObjectiveError(ValueError):
    """An objective that cannot be parsed, composed or evaluated, said in one line with the remedy."""
