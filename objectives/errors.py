"""The one error of the zoo."""


class ObjectiveError(ValueError):
    """An objective that cannot be parsed, composed or evaluated, said in one line with the remedy."""


def shown(text: object, longest: int = 60) -> str:
    """What a user wrote, short enough for one line."""
    written = str(text)
    return written if len(written) <= longest else written[: longest - 3] + "..."
