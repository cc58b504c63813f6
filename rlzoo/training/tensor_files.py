"""Files of tensors that are written one after the other, as safetensors reads them: none but one need be at hand."""

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import torch
from huggingface_hub import split_torch_state_dict_into_shards
from torch import Tensor

from rlzoo.files import write_json

LARGEST_FILE = "50GB"
"""As transformers has it; the hub takes no larger ones."""
DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class TensorFile:
    """A file of tensors whose shapes and dtypes are known; they may come in any order.

    Byte for byte it is what safetensors writes.
    """

    def __init__(self, path: Path, described: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
        """Tensors that say how those to come are made may lie on the meta device."""
        header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
        self._places: dict[str, int] = {}
        end = 0
        for name in sorted(described, key=lambda name: (-described[name].itemsize, name)):
            tensor, start = described[name], end
            end += tensor.numel() * tensor.itemsize
            shape = list(tensor.shape)
            header[name] = {"dtype": DTYPES[tensor.dtype], "shape": shape, "data_offsets": [start, end]}
            self._places[name] = start
        written = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        written += b" " * (-len(written) % 8)
        self._behind_header = 8 + len(written)
        self._file: IO[bytes] = path.open("wb")
        self._file.write(len(written).to_bytes(8, "little") + written)

    def write(self, name: str, tensor: Tensor) -> None:
        """Puts one of them into its place."""
        self._file.seek(self._behind_header + self._places[name])
        self._file.write(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def write_model_files(folder: Path, described: Mapping[str, Tensor], weights: Iterable[tuple[str, Tensor]]) -> None:
    """The weights of a model as transformers loads them: one file, or several with an index."""
    split = split_torch_state_dict_into_shards(
        dict(described), filename_pattern="model{suffix}.safetensors", max_shard_size=LARGEST_FILE
    )
    with ExitStack() as opened:
        files = {
            name: opened.enter_context(
                TensorFile(folder / name, {key: described[key] for key in held}, {"format": "pt"})
            )
            for name, held in split.filename_to_tensors.items()
        }
        for name, weight in weights:
            files[split.tensor_to_filename[name]].write(name, weight)
    if split.is_sharded:
        index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        write_json(folder / "model.safetensors.index.json", index)
