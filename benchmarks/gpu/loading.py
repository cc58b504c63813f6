"""What sharded models take of the machine's memory on each of several processes: loaded, saved and resumed.

    torchrun --nproc_per_node=2 -m benchmarks.gpu.loading FOLDER [LAYERS]

FOLDER gets a random model first, of 1 GB with 20 layers. Printed is a line of JSON for each process, in MiB: the model
in float32, a process's share of it, a layer, and by phase the peak of resident memory above what there was before,
mapped files included.
"""

import ctypes
import gc
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from accelerate import Accelerator
from transformers import Qwen3Config, Qwen3ForCausalLM

from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.progress import Progress
from rlzoo.model.accelerator import gathered, make_accelerator
from rlzoo.model.sharding import OVER_ALL
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout import load_engine
from rlzoo.training.checkpoint import Models, load_models, load_optimizer, save_checkpoint
from rlzoo.training.step import Trainer

MIB = 2**20
M_MMAP_THRESHOLD = -3
"""As malloc.h of glibc has it."""
WORDS = ("objective=grpo", "train.sharding=fsdp", "task.problems=8", "evaluation.problems=1")


def main(folder: Path, layers: int) -> None:
    """Makes the model, and prints what it takes."""
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**16)  # so that what is freed is given back, and not counted
    accelerator = make_accelerator("float32")
    if accelerator.is_main_process:
        make_model(folder / "model", layers)
    accelerator.wait_for_everyone()
    experiment = check(load_config([*WORDS, f"model.name={folder / 'model'}", f"output={folder / 'run'}"]))
    for rank, line in enumerate(gathered(accelerator, [peaks(experiment, accelerator, folder / "checkpoints")])):
        print(json.dumps({"rank": rank, **sizes(folder / "model", accelerator.num_processes), **line}))
    accelerator.end_training()


def make_model(folder: Path, layers: int, vocabulary: int = 2048, head: int = 64) -> None:
    """A random Qwen3; with a small vocabulary its layers hold nearly all of its weights."""
    tokenizer = load_tokenizer(load_config([]).model)
    config = Qwen3Config(
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=head,
        vocab_size=vocabulary,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.backend.eos_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.backend.save_pretrained(folder)


def sizes(folder: Path, processes: int) -> dict[str, int]:
    """MiB in float32 of a model, of a process's share of it, and of a layer."""
    with torch.device("meta"):
        model = Qwen3ForCausalLM(Qwen3Config.from_pretrained(folder))
    layer = sum(weight.numel() for weight in model.model.layers[0].parameters())
    numbers = {"model": model.num_parameters(), "share": model.num_parameters() / processes, "layer": layer}
    return {name: round(4 * number / MIB) for name, number in numbers.items()}


def peaks(experiment: Experiment, accelerator: Accelerator, folder: Path) -> dict[str, int]:
    """MiB by phase. The engine has a whole copy of the weights; the checkpoint is on top of weights and moments."""
    config, found = experiment.config, dict[str, int]()
    main, device = accelerator.is_main_process, accelerator.device

    def loaded(needs: frozenset[str], checkpoint: Path | None = None) -> Models:
        return load_models(experiment, needs, checkpoint, device, OVER_ALL)

    embedded = check(load_config([*WORDS, f"output={experiment.folder}"]))
    load_models(embedded, frozenset(), None, device, OVER_ALL)  # what is imported once is no part of a model
    with peak(found, "policy"):
        models = loaded(frozenset())
    with peak(found, "engine"):
        engine = load_engine(config.rollout, config.model, models.policy, experiment.tokenizer)
    del models, engine
    with peak(found, "policy and reference"):
        models = loaded(frozenset({"logp_ref"}))
    trainer = Trainer(experiment, accelerator, models.policy, None, sampler=None)  # type: ignore[arg-type]
    for weight in trainer.policy.parameters():
        weight.grad = torch.zeros_like(weight)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()
    with peak(found, "checkpoint"):
        saved = save_checkpoint(folder, models.policy, trainer.optimizer, Progress(step=1), keep=1, writes=main)
    accelerator.wait_for_everyone()
    del models, trainer
    with peak(found, "resumed, with moments"):
        models = loaded(frozenset(), saved)
        trainer = Trainer(experiment, accelerator, models.policy, None, sampler=None)  # type: ignore[arg-type]
        load_optimizer(saved, trainer.optimizer)
    return found


@contextmanager
def peak(found: dict[str, int], phase: str) -> Iterator[None]:
    """Notes how far resident memory rises above what it is now."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = status("VmRSS")
    yield
    found[phase] = round((status("VmHWM") - before) / MIB)


def status(field: str) -> int:
    """Bytes that the kernel says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
