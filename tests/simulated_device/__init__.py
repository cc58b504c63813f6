"""A pretended CUDA device for machines without one: it refuses what CUDA refuses.

Not simulated: waits, streams, memory, speed, CUDA's rounding, its own kernels, NCCL. Autocast is the CPU's.
"""

from tests.simulated_device.machine import SimulatedDevice
from tests.simulated_device.tensor import MixedDevices, OnDevice

__all__ = ["MixedDevices", "OnDevice", "SimulatedDevice"]
