"""`rlzoo completion`: the shell asks this program for words, through argcomplete."""

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any

from objectives import known
from rlzoo.config import Key

SUMMARY = "print what has a shell complete the words of rlzoo"
SHELLS = ("bash", "zsh", "fish")
INSTALL = """to have it in every new shell:
  bash   echo 'eval "$(rlzoo completion bash)"' >> ~/.bashrc
  zsh    echo 'eval "$(rlzoo completion zsh)"' >> ~/.zshrc, below compinit
  fish   rlzoo completion fish > ~/.config/fish/completions/rlzoo.fish"""


def declare(parser: ArgumentParser) -> None:
    """The shell."""
    parser.epilog = INSTALL
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(arguments: Namespace) -> None:
    """Prints it."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["rlzoo"], shell=arguments.shell))


def complete(parser: ArgumentParser) -> None:
    """Answers the shell and ends the process."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options=False)


def completed(action: Action, keys: Iterable[Key], objectives: bool = False) -> None:
    """Has a shell complete a command's words: its keys, their values where these are few, and objectives if asked."""
    taken = {key.name: key for key in keys}

    def complete(prefix: str, **_: Any) -> list[str]:
        name, equals, _value = prefix.partition("=")
        if equals:
            words = [f"{name}={value}" for value in _values(taken.get(name))]
        else:
            words = [*(f"{name}=" for name in taken), *(known() if objectives else ())]
        return [word for word in words if word.startswith(prefix)]

    action.completer = complete  # type: ignore[attr-defined]


def _values(key: Key | None) -> Iterable[str]:
    if key is None:
        return ()
    if key.name == "rollout.engine":
        from rlzoo.rollout import BUILTIN_ENGINES

        return BUILTIN_ENGINES
    return known() if key.is_expression else filter(None, key.choices)
