"""The pretended device does what CUDA does: it refuses what CUDA refuses, allows what CUDA allows, and counts waits."""

import copy
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
    "pinning what is there": lambda there, here: there.pin_memory(),
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
WAITS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "item": lambda there, here: there[0].item(),
    "bool": lambda there, here: bool(there.sum() > 0),
    "float": lambda there, here: float(there.sum()),
    "tolist": lambda there, here: there.tolist(),
    "cpu": lambda there, here: there.cpu(),
    "nonzero": lambda there, here: there.nonzero(),
    "boolean index": lambda there, here: there[there > 0],
    "masked_select": lambda there, here: there.masked_select(there > 0),
    "unique": lambda there, here: there.unique(),
    "repeat": lambda there, here: there.repeat_interleave((there > 0).long()),
    "made from a list": lambda there, here: torch.tensor([1.0], device=there.device),
    "sent": lambda there, here: here.to(there.device),
    "index of the CPU": lambda there, here: there[here.long()],
}
GOES_ON: dict[str, Callable[[Tensor, Tensor], object]] = {
    "sum": lambda there, here: (there * 2).sum(),
    "filled by mask": lambda there, here: there.masked_fill(there > 0, 1.0),
    "filled by index": lambda there, here: there.__setitem__(there > 0, 1.0),
    "where": lambda there, here: there.where(there > 0, 0.0),
    "index of the device": lambda there, here: there[there.long()],
    "made there": lambda there, here: torch.ones(3, device=there.device),
    "sent in the background": lambda there, here: here.pin_memory().to(there.device, non_blocking=True),
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


@pytest.mark.parametrize("name", WAITS)
def test_what_makes_the_host_wait_is_counted_once(name: str, device: SimulatedDevice) -> None:
    tensors = both()
    device.syncs.clear()
    WAITS[name](*tensors)
    assert device.syncs.total() == 1, device.report()


@pytest.mark.parametrize("name", GOES_ON)
def test_what_the_device_does_by_itself_is_not_counted(name: str, device: SimulatedDevice) -> None:
    tensors = both()
    device.syncs.clear()
    GOES_ON[name](*tensors)
    assert not device.syncs, device.report()


def test_gradients_cross_between_the_devices(device: SimulatedDevice) -> None:
    here = torch.tensor([1.0, 2.0], requires_grad=True)
    (here.to("cuda").square().sum().cpu() * 3).backward()
    assert here.grad is not None and here.grad.tolist() == [6.0, 12.0] and not isinstance(here.grad, OnDevice)


def test_a_module_moves_with_its_tied_weights_and_is_copied_with_them(device: SimulatedDevice) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    module[1].weight = module[0].weight
    there = copy.deepcopy(module.to("cuda"))
    assert there[0].weight is there[1].weight is not module[0].weight
    assert all(isinstance(parameter, OnDevice) for parameter in there.parameters())
    assert all(isinstance(parameter, torch.nn.Parameter) for parameter in there.parameters())


def test_outside_there_is_no_device() -> None:
    with SimulatedDevice():
        assert torch.cuda.is_available() and Accelerator().device.type == "cuda"
    assert not torch.cuda.is_available() and Accelerator().device.type == "cpu"
