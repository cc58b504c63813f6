"""The model and data hub where there is no network: what was fetched before is used, without waiting for the rest."""

import socket
from functools import cache
from urllib.parse import urlsplit
from urllib.request import getproxies


@cache
def expect_no_hub_without_a_network() -> None:
    """Has the hub's packages read what is kept here alone, if the hub's name leads nowhere; they try half a minute."""
    from huggingface_hub import constants

    if getproxies():  # the name is for the proxy to look up
        return
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None)
    except OSError:
        constants.HF_HUB_OFFLINE = True
