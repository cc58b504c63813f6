"""Every `rlzoo` command and every line of Python that the README and docs/ show works, shortened by further keys.

What they show of TRL and verl is tried in adapters_trl/ and adapters_verl/, where these are installed.
"""

import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlzoo.commands import main
from rlzoo.comparing.grid_words import read_grid_words
from rlzoo.config import Config
from rlzoo.config.command_keys import OWN, own_schema
from rlzoo.config.schema import keys

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / folder / "README.md" for folder in ("", "objectives", "objectives/adapters")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in path.parts),
]
FIRST_HOUR = "first_hour.md"
"""What test_first_hour.py types."""
TYPED = re.compile(r"^    ((?:torchrun \S+ -m )?rlzoo .*)$|`((?:torchrun \S+ -m )?rlzoo\s[^`]*=[^`]*)`", re.MULTILINE)
SECTIONS = "checkpoint|evaluation|log|model|rollout|slurm|task|train|verifier"
KEY = re.compile(rf"(?<![\w./-])((?:{SECTIONS})\.[a-z][a-z_.]*[a-z])")
FILES = (".py", ".md", ".txt", ".parquet")
RUN = "runs/sums-stapo+clip_higher-0"
TINY = ["rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "evaluation.problems=4", "evaluation.samples=1"]
SHORT = ["train.steps=1", *TINY]
ELSEWHERE = (
    "model.name=Qwen",
    *(f"configs/{it}" for it in ("stapo", "stare", "lopti", "justrl", "dapo_", "entropy20_", "one_gpu_")),
)
"""What only a hub or a GPU has."""
PLACEHOLDERS = ("...", "RUN", "{", "HOST")
"""Words of a line in running text that a reader fills in."""
METHOD = """
from dataclasses import dataclass
from objectives import Mask, register


@register
@dataclass(frozen=True)
class MyPart(Mask):
    \"\"\"Leaves out tokens that were certain.\"\"\"

    name = "my_part"
    reads = frozenset({"logp_old"})

    def keeps(self, batch):
        return batch.logp_old < -0.01
"""
REWARD = "def reward(response, gold, **columns):\n    return float(gold in response)\n"


def typed(pages: Sequence[Path] = [page for page in PAGES if page.name != FIRST_HOUR]) -> list[str]:
    """Every command once: those on lines of their own, and those in running text that a reader can type as they are."""
    found = [match for page in pages for match in TYPED.findall(page.read_text(encoding="utf-8"))]
    lines = [alone or inside for alone, inside in found if alone or not any(it in inside for it in PLACEHOLDERS)]
    return list(dict.fromkeys(" ".join(shlex.split(line, comments=True, posix=False)) for line in lines))


def known_keys() -> set[str]:
    """Every key of an experiment and of a command, and the sections that these are in."""
    schemas = [Config, *map(own_schema, OWN)]
    names = {key.name for schema in schemas for key in keys(schema)}
    return names | {name.rpartition(".")[0] for name in names}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages speak of: a finished run, data, a reward, methods."""
    folder = tmp_path_factory.mktemp("typed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", f"output={RUN}", *SHORT]) == 0
    for name in ("math-stapo-0", "dapo"):
        shutil.copytree(folder / RUN, folder / "runs" / name)
    shutil.copytree(folder / RUN / "checkpoints" / "step-000001", folder / "my_model")
    (folder / "my.jsonl").write_text('{"question": "1+1=", "answer": "2"}\n{"question": "1+2=", "answer": "3"}\n' * 16)
    (folder / "my.csv").write_text("question,answer\n" + "1+1=,2\n1+2=,3\n" * 16)
    (folder / "answers.jsonl").write_text('{"gold": "2", "response": "It is \\\\boxed{2}."}\n')
    answers = [f"{method},{seed},p,0,1\n" for method in ("grpo", "dapo") for seed in (0, 1)]
    (folder / "results.csv").write_text("method,seed,problem,sample,value\n" + "".join(answers))
    (folder / "my.yaml").write_text("seed: 3\n")
    (folder / "config.yaml").write_text("algorithm:\n  adv_estimator: grpo\n")
    (folder / "run.sh").write_text("python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo\n")
    (folder / "my_file.py").write_text(REWARD)
    (folder / "my_module.py").write_text(METHOD)
    guides, library = ROOT / "docs" / "guides", ROOT / "objectives" / "README.md"
    for page, name in (
        (guides / "own_reward.md", "brief"),
        (guides / "own_method.md", "confident"),
        (guides / "own_task.md", "my_task"),
        (guides / "tools.md", "calculator"),
        (library, "my_method"),
    ):
        text = page.read_text(encoding="utf-8")
        (folder / f"{name}.py").write_text(text.split("```python\n")[1].split("```")[0])
    for name in ("configs", "examples"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "cold_start").symlink_to("my_model")
    (folder / "data" / "kk" / "instruct" / "merge_34567ppl").mkdir(parents=True)  # Lopti's, fetched by hand
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it, to work in."""
    folder = tmp_path / "here"
    shutil.copytree(made, folder, symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    yield folder


def trained(words: list[str]) -> None:
    """Trains one tiny step; what is elsewhere is read, checked and shown."""
    if "--help" in words:
        with pytest.raises(SystemExit, match="0"):
            main(words)
    elif any(it in word for word in words for it in ELSEWHERE):
        assert main([*words, "show=config"]) == 0
    else:
        others = [word for word in words if word != "..."]
        assert main([*others, *SHORT, "output=runs/another"]) == 0


def compared(words: list[str]) -> None:
    """Reads the whole grid; its cells are `rlzoo train`, and what a grid does has tests of its own."""
    read_grid_words([word for word in words[1:] if word != "--ablate"])


def evaluated(words: list[str]) -> None:
    """Evaluates a few problems; benchmarks, which a hub has, are refused by name where there is none."""
    if any(word.startswith("benchmarks=") for word in words):
        assert main(words) == 2
    else:
        assert main([*words, "evaluation.problems=4", "evaluation.samples=1"]) == 0


def ranked(words: list[str]) -> None:
    """Ranks the run at hand in place of the runs that are named."""
    if any(word.startswith("benchmarks=") for word in words):
        assert main(words) == 2  # nothing was evaluated on them
    elif any(word.endswith(".csv") for word in words):
        assert main(words) == 0
    else:
        assert main(["leaderboard", RUN]) == 0


def looked(words: list[str]) -> None:
    """As it is typed; a model that only a hub has is refused by name."""
    assert main(words) == (2 if any(it in word for word in words for it in ELSEWHERE) else 0)


def mapped(words: list[str]) -> None:
    """With few batches."""
    assert main([*words, "batches=8"]) == 0


def suited(words: list[str]) -> None:
    """With one seed."""
    assert main([*words, "seeds=1"]) == 0


def predicted(words: list[str]) -> None:
    """As it is typed; 1 says that it does not fit, or that something was found."""
    assert main(words) in (0, 1)


def graded(words: list[str]) -> None:
    """The shell's star spelled out."""
    spelled = [str(path) for word in words for path in (sorted(Path().glob(word)) if "*" in word else [word])]
    assert main(spelled) == 0


def pushed(words: list[str]) -> None:
    """The hub, which is not there, is named."""
    assert main(words) == 2


DONE: dict[str, Callable[[list[str]], None]] = {
    "train": trained,
    "compare": compared,
    "eval": evaluated,
    "leaderboard": ranked,
    "inspect": looked,
    "map": mapped,
    "suite": suited,
    "objectives": looked,
    "doctor": predicted,
    "task": looked,
    "grade": graded,
    "fit": predicted,
    "push": pushed,
}


def test_the_pages_show_every_command_but_those_nobody_reads_about() -> None:
    shown = {line.partition("rlzoo ")[2].split()[0] for line in typed()}
    assert shown == DONE.keys()


def test_every_key_that_a_page_names_is_one() -> None:
    options = ("task.options.", "task.chat_template_kwargs.", "slurm.options.")
    for page in PAGES:
        named = set(KEY.findall(page.read_text(encoding="utf-8")))
        assert {it for it in named if not it.startswith(options) and not it.endswith(FILES)} <= known_keys(), page


def test_every_make_target_that_a_page_names_is_one() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        words = re.findall(
            r"(?:^    |`)make ([a-z][a-z0-9 -]*[a-z0-9])", page.read_text(encoding="utf-8"), re.MULTILINE
        )
        assert {target for it in words for target in it.split("  ")[0].split()} <= targets, page


@pytest.mark.slow
def test_the_lines_of_python_do_what_they_say(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rlzoo

    train, compare = rlzoo.train, rlzoo.compare
    short = {key: int(value) for key, value in (word.split("=") for word in SHORT)}
    monkeypatch.setattr(rlzoo, "train", lambda **keys: train(**{**keys, **short}), raising=False)
    monkeypatch.setattr(rlzoo, "compare", lambda *words, seeds: compare(*words, seeds=1, **short), raising=False)
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec("\n".join(line.strip() for line in text.splitlines() if line.startswith("    ")), names)
    assert len(names["run"].metrics) == 1
    assert list((here / "runs").glob("compare*/leaderboard.html"))
    (push,) = names["parse"]("stapo+clip_higher").token_gradients(names["batch"])
    assert push.shape == names["mask"].shape


README = typed(PAGES[:1])


@pytest.mark.slow
@pytest.mark.parametrize("line", [pytest.param(it, marks=[pytest.mark.smoke] * (it in README)) for it in typed()])
def test_a_command_does_what_it_says_as_it_is_typed(line: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line.partition("rlzoo ")[2])
    DONE[words[0]](words)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.smoke
def test_a_grid_of_the_readme_ends_with_a_board(here: Path) -> None:
    words = ["compare", "grpo", "dapo", "seeds=0,1", "jobs=2", "output=runs/grid", *SHORT]
    assert main(words) == 0
    assert main(["leaderboard", "runs/grid"]) == 0
    assert Path("runs/grid/leaderboard.html").stat().st_size > 10_000
