"""An engine from outside: vLLM's server as rlzoo has it, with weights that go over gloo, as no GPU is needed for that.

The server's workers import it too: `--worker-extension-cls tests.vllm.gloo_server.Extension`.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, ClassVar, Self

import torch
import torch.distributed
from vllm.distributed.weight_transfer.base import (
    TrainerInitInfo,
    TrainerWeightTransferEngine,
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory, WeightTransferTrainerFactory

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.config.decoding import Decoding
from rlzoo.rollout.vllm_engine import check_vllm
from rlzoo.rollout.vllm_server import VllmServer

BACKEND = "rlzoo_gloo"
LONGEST_WAIT = timedelta(minutes=5)


def _joined(address: str, port: int, rank: int, size: int) -> Any:
    """A group beside those that the trainer and the server have for themselves."""
    distributed: Any = torch.distributed
    store = distributed.TCPStore(address, port, size, rank == 0, LONGEST_WAIT)
    return distributed.ProcessGroupGloo(distributed.PrefixStore("weights", store), rank, size, LONGEST_WAIT)


@dataclass
class GlooTrainerInitInfo(TrainerInitInfo):
    """Where the trainer and the workers of the server meet; `world_size` counts both."""

    backend: ClassVar[str] = BACKEND

    master_address: str
    master_port: int
    world_size: int


@dataclass
class GlooInitInfo(WeightTransferInitInfo):
    """The same for a worker."""

    master_address: str
    master_port: int
    world_size: int


@dataclass
class GlooUpdateInfo(WeightTransferUpdateInfo):
    """What comes, in its order."""

    names: list[str]
    dtypes: list[str]
    shapes: list[list[int]]


class GlooTrainerEngine(TrainerWeightTransferEngine[GlooTrainerInitInfo]):
    """Sends the weights of a source to all workers, one whole tensor at a time."""

    init_info_cls = GlooTrainerInitInfo
    group: Any

    @classmethod
    def trainer_init(cls, init_info: GlooTrainerInitInfo, *, client: Any, source: Any = None) -> Self:
        """Meets the workers; only rank 0 does, which sends."""
        engine = cls(client=client, source=source, is_sender=init_info.is_sender)
        if engine.is_sender:
            where = GlooInitInfo(init_info.master_address, init_info.master_port, init_info.world_size)
            with ThreadPoolExecutor(1) as beside:
                told = beside.submit(client.init_weight_transfer_engine, asdict(where))
                engine.group = _joined(where.master_address, where.master_port, 0, where.world_size)
                told.result()
        return engine

    def send_weights(self) -> None:
        """Sends all weights; on other ranks than 0 it goes through them, as sharded ones take all processes."""
        if not self.is_sender:
            for _ in self.source:
                pass
            return
        metadata = self.source.metadata()
        info = GlooUpdateInfo(
            names=[it.name for it in metadata],
            dtypes=[str(it.dtype).removeprefix("torch.") for it in metadata],
            shapes=[list(it.shape) for it in metadata],
        )
        self.client.start_weight_update()
        with ThreadPoolExecutor(1) as beside:
            told = beside.submit(self.client.update_weights, asdict(info))
            for _, tensor in self.source:
                if told.done():  # before all was sent: it was refused
                    break
                self._send(tensor)
            told.result()
        self.client.finish_weight_update()

    def _send(self, tensor: torch.Tensor) -> None:
        try:
            self.group.broadcast([tensor.contiguous()]).wait()
        except RuntimeError as error:
            raise ConnectionError(str(error)) from None


class GlooEngine(WeightTransferEngine[GlooInitInfo, GlooUpdateInfo]):
    """Receives them in a worker."""

    init_info_cls, update_info_cls = GlooInitInfo, GlooUpdateInfo
    group: Any = None

    def init_transfer_engine(self, init_info: GlooInitInfo) -> None:
        """Meets the trainer."""
        parallel = self.parallel_config
        rank = 1 + parallel.data_parallel_index * parallel.world_size + parallel.rank
        self.group = _joined(init_info.master_address, init_info.master_port, rank, init_info.world_size)

    def start_weight_update(self) -> None:
        """As vLLM's own backends begin."""
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Takes over what is sent; vLLM's own version waits for an accelerator afterwards, which there is none of."""
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: GlooUpdateInfo) -> None:
        """Loads one tensor after the other."""
        for name, dtype, shape in zip(update_info.names, update_info.dtypes, update_info.shapes, strict=True):
            tensor = torch.empty(shape, dtype=getattr(torch, dtype))
            self.group.broadcast([tensor]).wait()
            self.model.load_weights([(name, tensor)])

    def finish_weight_update(self) -> None:
        """As vLLM's own backends end."""
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """Leaves the trainer."""
        self.group = None


WeightTransferEngineFactory.register_engine(BACKEND, GlooEngine)
WeightTransferTrainerFactory.register_engine(BACKEND, GlooTrainerEngine)


class Extension:
    """Does nothing: a worker that is told to have it imports this module."""


class GlooServer(VllmServer):
    """`rollout.engine=tests.vllm.gloo_server:GlooServer`."""

    backend, receiver = BACKEND, "GlooEngine"

    @classmethod
    def check(cls, rollout: RolloutConfig, model: ModelConfig, decodings: Sequence[Decoding]) -> None:
        check_vllm(rollout, decodings)
        cls.check_server(rollout, model)

    @classmethod
    def command(cls, rollout: RolloutConfig, model: ModelConfig) -> str:
        here = "--kv-cache-memory-bytes 1G --enforce-eager --worker-extension-cls tests.vllm.gloo_server.Extension"
        return f"{super().command(rollout, model)} {here}"

    @staticmethod
    def meeting() -> type[GlooTrainerInitInfo]:
        return GlooTrainerInitInfo
