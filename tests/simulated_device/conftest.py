"""What the tests on the pretended device share."""

from collections.abc import Iterator

import pytest

from tests.simulated_device import SimulatedDevice


@pytest.fixture
def device() -> Iterator[SimulatedDevice]:
    """A machine with the device, for the length of a test."""
    with SimulatedDevice() as machine:
        yield machine
