"""`rlzoo completion`: the shell asks this program for words, through argcomplete."""

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any

from rlzoo.config import Config
from rlzoo.config.zoo_names import zoo_names

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


def completed(action: Action, keys: Iterable[tuple[str, Any, str]], objectives: bool = False) -> None:
    """Has a shell complete a command's words: its keys, their values where these are few, and objectives if asked."""
    names = [name for name, _, _ in keys]

    def complete(prefix: str, **_: Any) -> list[str]:
        key, equals, value = prefix.partition("=")
        if equals:
            return [f"{key}={it}" for it in _values(key) if it.startswith(value)]
        return [
            it
            for it in (*(f"{name}=" for name in names), *(zoo_names() if objectives else ()))
            if it.startswith(prefix)
        ]

    action.completer = complete  # type: ignore[attr-defined]


def _values(key: str) -> Iterable[str]:
    if key in ("objective", "against", "baseline"):
        return zoo_names()
    return Config.ranges[key].choices if key in Config.ranges else ()
