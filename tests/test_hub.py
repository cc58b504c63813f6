"""Without a network nobody waits for the hub."""

import socket

import pytest
from huggingface_hub import constants

from rlzoo.hub import expect_no_hub_without_a_network


@pytest.mark.parametrize(
    ("network", "proxy", "offline"), [(True, False, False), (False, False, True), (False, True, False)]
)
def test_the_hub_is_not_tried_where_its_name_leads_nowhere(
    network: bool, proxy: bool, offline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(*_: object) -> list[object]:
        if not network:
            raise socket.gaierror(-2, "Name or service not known")
        return []

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("rlzoo.hub.getproxies", lambda: {"https": "http://proxy:3128"} if proxy else {})
    expect_no_hub_without_a_network.cache_clear()
    expect_no_hub_without_a_network()
    expect_no_hub_without_a_network.cache_clear()
    assert constants.HF_HUB_OFFLINE is offline
