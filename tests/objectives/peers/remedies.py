"""The line of an adapter about settings that have no effect beside an objective, and the expression in it."""

from collections.abc import Mapping
from typing import Any

import pytest

from objectives import ObjectiveError, parse
from objectives.peers.replaced import refuse_replaced
from objectives.peers.table import PeerTable
from objectives.peers.translate import from_peer


def refusal(table: PeerTable, objective: str, settings: Mapping[str, Any], decided: Mapping[str, Any]) -> str:
    """The line of an adapter that sets, or leaves to its library, what is `decided`."""
    with pytest.raises(ObjectiveError) as raised:
        refuse_replaced(table, parse(objective), {**table.defaults, **decided, **settings}, table.defaults, decided)
    return str(raised.value)


def remedy_in(line: str) -> str | None:
    """The expression to write instead, where there is one."""
    return line.split("as in '")[1].split("'")[0] if "as in '" in line else None


def remedy_beside_usual(table: PeerTable, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """The expression to write beside the objective that the `usual` settings of a library are."""
    remedy = remedy_in(refusal(table, from_peer(table.name, usual).expression, settings, usual))
    assert remedy is not None
    return remedy
