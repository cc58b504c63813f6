"""The pretended device does what CUDA does: it refuses what CUDA refuses, and allows what CUDA allows."""

from collections.abc import Callable

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from tests.simulated_device import MixedDevices, OnDevice, SimulatedDevice

REFUSED: dict[str, Callable[[Tensor, Tensor], object]] = {
    "sum": lambda there, here: there + here,
    "in place": lambda there, here: there.add_(here),
    "of the CPU in place": lambda there, here: here.add_(there),
    "where": lambda there, here: torch.where(there > 0, there, here),
    "product": lambda there, here: torch.outer(there, here),
    "join": lambda there, here: torch.cat([there, here]),
    "index of the device into the CPU": lambda there, here: here[there.long()],
    "values of the CPU": lambda there, here: there.__setitem__(torch.arange(3, device=there.device), here),
    "gather": lambda there, here: there.gather(0, here.long()),
    "numpy": lambda there, here: there.numpy(),
    "collective": lambda there, here: Accelerator().gather(here),
}
ALLOWED: dict[str, Callable[[Tensor, Tensor], object]] = {
    "number": lambda there, here: there + 1.5,
    "number in a tensor": lambda there, here: there + torch.tensor(1.5),
    "index of the CPU": lambda there, here: there[here.long()],
    "copy": lambda there, here: there.copy_(here),
    "collective": lambda there, here: Accelerator().gather(there),
    "factory": lambda there, here: there + torch.zeros(3, device=there.device),
    "sent": lambda there, here: there + here.to(there.device),
}


def both() -> tuple[Tensor, Tensor]:
    """The same on the device and on the CPU."""
    return torch.tensor([0.0, 1.0, 2.0], device="cuda"), torch.tensor([0.0, 1.0, 2.0])


@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_refuses_is_refused(name: str, device: SimulatedDevice) -> None:
    with pytest.raises((MixedDevices, TypeError, RuntimeError), match=r"cuda|CPU"):
        REFUSED[name](*both())


@pytest.mark.parametrize("name", ALLOWED)
def test_what_cuda_allows_is_allowed(name: str, device: SimulatedDevice) -> None:
    result = ALLOWED[name](*both())
    assert isinstance(result, OnDevice) and result.device == torch.device("cuda", 0)


def test_gradients_cross_between_the_devices(device: SimulatedDevice) -> None:
    here = torch.tensor([1.0, 2.0], requires_grad=True)
    (here.to("cuda").square().sum().cpu() * 3).backward()
    assert here.grad is not None and here.grad.tolist() == [6.0, 12.0] and not isinstance(here.grad, OnDevice)
