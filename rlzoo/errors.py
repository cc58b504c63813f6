"""The one error that a user's own input can cause."""


class UserError(Exception):
    """Bad input, said in one line: the key, the value, and the remedy.

    The command line prints it without a traceback and exits with status 2.
    """
