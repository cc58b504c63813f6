"""What a stranger hands over (a run, a grid, kept responses) is data: whatever it names, none of its code runs."""

import json
import pickle
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import rlzoo
from objectives import parse
from rlzoo.commands import main
from rlzoo.comparing import compare
from rlzoo.comparing.compare import CellRun
from rlzoo.comparing.grid import read_grid
from rlzoo.errors import Fault
from rlzoo.files import read_json_lines, write_json, write_json_lines
from rlzoo.model.pretrained import ADAPTER_CONFIG, MANIFEST, write_manifest
from tests.conftest import error_of, fault_of
from tests.report.test_push import Hub, hub  # noqa: F401
from tests.thinned import thinned

WRITE = "__import__('sqlite3').connect('{marker}').execute('create table t (a int)')"
START = (
    "__import__('builtins').exec('import _posixsubprocess, os; r, w = os.pipe(); _posixsubprocess.fork_exec("
    '[b"/usr/bin/touch", b"{marker}"], [b"/usr/bin/touch"], True, (), None, None, -1, -1, -1, -1, -1, -1, r, w, '
    "False, False, -1, None, None, None, -1, None, False)')"
)
"""Answers that write a file and start a process where they are evaluated."""
SMALL = ("rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "train.steps=1", "task.problems=50")
WORDS = (*SMALL, "evaluation.problems=4", "evaluation.samples=2")
CODE = """
from pathlib import Path
Path({marker!r}).touch()
from dataclasses import dataclass
from objectives import Penalty, register
from rlzoo.tasks.arithmetic import Arithmetic

def reward(response, gold):
    return 1.0

@register
@dataclass(frozen=True)
class Bonus(Penalty):
    name = "bonus"

    def penalty(self, rows, logp, entropy):
        return 0.0 * logp
"""


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of ours."""
    folder = tmp_path_factory.mktemp("runs") / "arithmetic-grpo-0"
    return rlzoo.train(*WORDS, "objective=grpo", output=folder, progress=False).folder


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What appears if the stranger's module, which lies in the working directory, is imported."""
    marker = tmp_path / "marker"
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "theirs.py").write_text(CODE.format(marker=str(marker)))
    yield marker
    for name in [name for name in sys.modules if name.startswith("theirs")]:
        del sys.modules[name]


@pytest.fixture
def run(clean: Path, marker: Path) -> Path:
    """The stranger's copy of it, in the working directory."""
    return shutil.copytree(clean, marker.parent / "runs" / "arithmetic-grpo-1")


def say(run: Path, key: str, value: str) -> None:
    """Has a run's config.yaml say something else."""
    section, _, name = key.rpartition(".")
    text = (run / "config.yaml").read_text()
    lines, inside, done = [], not section, False
    for line in text.splitlines():
        inside = (line == f"{section}:") if section and not line.startswith(" ") else inside
        if inside and not done and line.strip().startswith(f"{name}:"):
            line, done = f"{line[: len(line) - len(line.lstrip())]}{name}: {value}", True
        lines.append(line)
    assert done
    (run / "config.yaml").write_text("\n".join(lines) + "\n")


def records(run: Path) -> Path:
    """Its responses to the held-out problems."""
    return next((run / "evaluation").glob("*.jsonl"))


NAMES = [
    *(("task.name", "theirs:Arithmetic"), ("task.reward", '["theirs:reward"]'), ("model.trust_remote_code", "true")),
    *(("rollout.engine", "theirs:Engine"), ("task.tools", '["theirs:reward"]'), ("task.environment", "theirs:Engine")),
]


@pytest.mark.parametrize("command", [("eval",), ("inspect",), ("train", "resume=true", "train.steps=2")])
@pytest.mark.parametrize(("key", "value"), thinned(NAMES, 3))
def test_a_run_does_not_say_what_to_import(
    command: tuple[str, ...], key: str, value: str, run: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say(run, key, value)
    target = run / "config.yaml" if command[0] == "train" else run
    line = error_of(capsys, command[0], target, *command[1:])
    assert key in line and str(run / "config.yaml") in line and not marker.exists()
    assert re.search(r"add trust=(\S+) if", line)


def test_a_server_that_a_run_names_is_not_asked(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        say(run, "rollout.engine", "vllm_server")
        say(run, "rollout.server", f"http://127.0.0.1:{server.getsockname()[1]}")
        line = error_of(capsys, "eval", run)
        assert f"add trust={run / 'config.yaml'}" in line and "rollout.server" in line
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_teacher_that_a_run_names_is_data(run: Path, marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    teacher = shutil.copytree(run / "checkpoints" / "step-000001", marker.parent / "teacher")
    (teacher / MANIFEST).unlink()  # as whoever changes what it lists would
    code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
    for name in ("config.json", "tokenizer_config.json"):
        values = json.loads((teacher / name).read_text()) | {"model_type": "theirs"}
        classes = {it: "theirs_code.Theirs" for it in ("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer")}
        write_json(teacher / name, {**values, "auto_map": classes})
    (teacher / "theirs_code.py").write_text(code)
    say(run, "model.teacher", str(teacher))
    say(run, "objective", "opd")
    described = json.loads((run / "objective.json").read_text())
    write_json(run / "objective.json", {**described, "key": parse("opd").key, "expression": "opd"})
    line = error_of(capsys, "inspect", run)
    assert f"model.teacher={teacher}: the model runs code of its own" in line and not marker.exists()


@pytest.mark.parametrize("key", ["task", "reward"])
def test_a_line_of_responses_does_not_say_what_to_import(
    key: str, run: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = read_json_lines(records(run))
    value = {"name": "theirs:Arithmetic"} if key == "task" else {"name": "arithmetic", "reward": ["theirs:reward"]}
    lines[-1]["task"] |= value
    write_json_lines(records(run), lines)
    line = error_of(capsys, "grade", "regrade=true", records(run))
    assert "theirs:" in line and str(records(run)) in line and not marker.exists()


def test_a_line_of_responses_runs_no_command(run: Path, marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = read_json_lines(records(run))
    lines[0]["task"] = {"name": "subprocess:Popen", "options": {"args": f"touch {marker}", "shell": True}}
    lines[1]["task"] = {"name": "arithmetic", "reward": ["builtins:exec"]}
    lines[1]["response"] = f"open({str(marker)!r}, 'w')"
    write_json_lines(records(run), lines)
    assert "subprocess:Popen" in error_of(capsys, "grade", "regrade=true", records(run)) and not marker.exists()
    write_json_lines(records(run), lines[1:])
    assert "builtins:exec" in error_of(capsys, "grade", "regrade=true", records(run)) and not marker.exists()
    write_json_lines(records(run), [{**lines[0], "task": {"name": ["x"], "more": 1}}])
    assert "which is none" in error_of(capsys, "grade", "regrade=true", records(run))


def outside(run: Path) -> None:
    """Has a run say that it was trained with a part of the stranger's."""
    described = json.loads((run / "objective.json").read_text())
    write_json(run / "objective.json", {**described, "key": "other #1234abcd", "expression": "grpo+theirs:bonus"})
    say(run, "objective", "grpo+theirs:bonus")


@pytest.mark.slow
def test_the_objective_of_a_run_is_compared_by_its_key(
    run: Path, marker: Path, clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside(run)
    assert main(["leaderboard", str(clean), str(run), "output=board"]) == 0
    assert "theirs:bonus" in Path("board/leaderboard.csv").read_text() and not marker.exists()
    rlzoo.train(*WORDS, objective="grpo", output="runs/{task}-{objective}-{seed}", progress=False)
    assert not marker.exists()
    assert "objective=grpo+theirs:bonus" in error_of(capsys, "inspect", run) and not marker.exists()
    (run / "objective.json").unlink()
    line = error_of(capsys, "leaderboard", clean, run)
    assert "trust=" in line and not marker.exists()
    remedy = re.search(r"rlzoo (train .*) writes down", line)
    assert remedy and main(remedy[1].split()) == 0
    assert marker.exists() and (run / "objective.json").exists()


def test_a_name_in_a_grid_leads_to_no_other_folder(run: Path, marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"key": "k #12345678", "expression": "grpo", "name": "../../outside", "asked": "x"}
    entry |= {"sweep": {"family": "", "values": [], "words": []}}
    values = {"objectives": [entry], "seeds": [0], "words": list(WORDS), "baseline": "", "further": [], "up_to": 0}
    write_json(run.parent / "grid.json", values)
    for words in (("leaderboard", run.parent), ("compare", "grpo", *WORDS, f"output={run.parent}")):
        assert "leads out of the folder" in error_of(capsys, *words)
    assert not list(marker.parent.parent.glob("outside*"))


def test_a_seed_of_a_grid_that_no_folder_can_be_called_by_is_one_line(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"key": "k #12345678", "expression": "grpo", "name": "x", "asked": "grpo", "settings": []}
    values = {"objectives": [entry], "seeds": [10**299], "words": list(WORDS), "baseline": "", "further": []}
    write_json(run.parent / "grid.json", {**values, "up_to": 0})
    assert "'x-1000000" in (line := error_of(capsys, "leaderboard", run.parent)) and "is too long" in line


def test_a_grid_does_not_say_what_to_import(run: Path, marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = run.parent
    entry = {"key": "k #12345678", "expression": "grpo", "name": "x", "asked": "x"}
    entry |= {"sweep": {"family": "grpo", "values": [], "words": []}}
    sweep = {"family": "grpo", "values": [], "words": ["task.reward=theirs:reward"]}
    values = {"objectives": [{**entry, "sweep": sweep}], "seeds": [0], "words": list(WORDS)}
    values |= {"baseline": "", "further": [], "up_to": 0}
    for objectives, baseline in (
        (values["objectives"], ""),
        ([{**entry, "expression": "theirs:bonus"}], ""),
        ([], "theirs:bonus"),
    ):
        write_json(grid / "grid.json", {**values, "objectives": objectives, "baseline": baseline})
        line = error_of(capsys, "compare", "grpo", *WORDS, f"output={grid}")
        assert "theirs" in line and not marker.exists()


@pytest.mark.slow
def test_what_is_typed_or_trusted_is_imported(
    run: Path, marker: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(run, "task.reward", '["theirs:reward"]')
    for words in (["eval", str(run)], ["inspect", str(run)]):
        line = error_of(capsys, *words)
        remedy = re.search(r"add (trust=\S+) if", line)
        assert remedy and main([*words, remedy[1]]) == 0
        assert marker.exists()
        marker.unlink()
        del sys.modules["theirs"]
    assert main(["eval", str(run), "task.reward=theirs:reward", "output=typed"]) == 0
    assert marker.exists()
    kept = next(Path("typed").glob("sums*.jsonl"))
    assert "has no effect" in error_of(capsys, "eval", "embedded:sums", f"trust={run}")
    assert "add trust=" in error_of(capsys, "grade", "regrade=true", kept)
    assert "has no effect" in error_of(capsys, "grade", "regrade=true", kept, "trust=elsewhere")
    assert main(["grade", "regrade=true", str(kept), "trust=typed"]) == 0
    mine = Path("mine.yaml")
    mine.write_text((run / "config.yaml").read_text())
    assert "trust=" in error_of(capsys, "train", run / "config.yaml", "output=new")
    assert main(["train", str(mine), "output=new"]) == 0


def test_what_a_grid_alone_names_is_imported_where_it_is_trusted(
    marker: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*WORDS, "seeds=0", "output=grid")
    theirs, _ = read_grid(["grpo", "grpo+theirs:bonus", *words])
    theirs.folder.mkdir()
    theirs.save()
    marker.unlink()
    del sys.modules["theirs"]
    line = error_of(capsys, "compare", "grpo", *words)
    remedy = re.search(r"theirs:bonus.* add (trust=\S+) if", line)
    assert remedy and not marker.exists()
    assert "has no effect" in error_of(capsys, "compare", "grpo", *words, "trust=elsewhere") and not marker.exists()
    begun: list[str] = []

    def begin(cells: Sequence[CellRun], *_: object) -> None:
        begun.extend(str(run.cell.entry.expression) for run in cells)
        raise Fault("nothing is trained here")

    monkeypatch.setattr(compare, "_Scheduler", begin)
    assert "nothing is trained here" in fault_of(capsys, "compare", "grpo", *words, remedy[1])
    assert marker.exists() and begun == ["grpo", "grpo+theirs:bonus"]


class Pickled:
    """What runs when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return open, (f"{self.marker}", "w")  # type: ignore[return-value]


def test_a_pickle_in_a_checkpoint_is_not_loaded(run: Path, marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkpoint,) = (run / "checkpoints").iterdir()
    (checkpoint / "model.safetensors").unlink()
    for name in ("pytorch_model.bin", "training/optimizer.bin", "training/optimizer.pt"):
        (checkpoint / name).write_bytes(pickle.dumps(Pickled(marker)))
    write_manifest(checkpoint, 1)
    assert "model.name=" in error_of(capsys, "eval", run) and not marker.exists()
    pickle.loads((checkpoint / "pytorch_model.bin").read_bytes())
    assert marker.exists(), "it would have run"


def test_a_pickle_that_a_configuration_names_is_not_loaded(
    run: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkpoint,) = (run / "checkpoints").iterdir()
    model = json.loads((checkpoint / "config.json").read_text())
    write_json(checkpoint / "config.json", {**model, "transformers_weights": "adapter_model.bin"})
    (checkpoint / "adapter_model.bin").write_bytes(pickle.dumps(Pickled(marker)))
    write_manifest(checkpoint, 1)
    resumed = ("train", run / "config.yaml", f"output={run}", "resume=true", "train.steps=2")
    for words in (("eval", run), resumed):
        assert "names the weights adapter_model.bin" in error_of(capsys, *words) and not marker.exists()
    write_json(checkpoint / "config.json", {**model, "attn_implementation": "someone/kernel"})
    write_manifest(checkpoint, 1)
    assert "code of the hub, attn_implementation=someone/kernel" in error_of(capsys, *resumed)


def test_adapters_in_a_checkpoint_are_not_loaded(run: Path, marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkpoint,) = (run / "checkpoints").iterdir()
    settings = {"peft_type": "LORA", "target_modules": ["q_proj"], "megatron_config": {"a": 1}}
    write_json(checkpoint / ADAPTER_CONFIG, {**settings, "megatron_core": "theirs"})
    (checkpoint / "adapter_model.bin").write_bytes(pickle.dumps(Pickled(marker)))
    resumed = ("train", run / "config.yaml", f"output={run}", "resume=true", "train.steps=2")
    for words in (("eval", run), ("inspect", run), resumed):
        assert f"it has {ADAPTER_CONFIG}" in error_of(capsys, *words) and not marker.exists()
    (checkpoint / MANIFEST).unlink()
    for key in ("model.name", "model.reference"):
        line = error_of(capsys, "train", "objective=grpo+kl", f"{key}={checkpoint}", "output=new", *WORDS)
        assert f"{key}={checkpoint}: the folder has adapters" in line and not marker.exists()


def test_a_folder_of_data_runs_no_script(marker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = marker.parent / "theirs"
    folder.mkdir()
    shutil.move("theirs.py", folder / "theirs.py")
    write_json_lines(folder / "train.jsonl", [{"question": f"{n}+1-1=", "answer": str(n)} for n in range(16)])
    assert "task.name=./theirs" in error_of(capsys, "task", "task.name=./theirs")
    assert not [*marker.parent.rglob("marker")]


# ---- all of it at once -----------------------------------------------------------------------------------------------


def countdown(answer: str) -> dict[str, object]:
    """A kept response whose answer is Python, to a task that evaluates it."""
    entry = {"question": "?", "answer": "3", "metadata": {"numbers": [1, 2], "target": 3}}
    task = {"name": "reasoning_gym:countdown", "options": {}, "wrong_reward": 0.0}
    told = {"problem": "p", "prompt": "1+1=<eos>", "answer": "3", "data": {"entry": entry}, "task": task}
    return {**told, "response": f"<answer>{answer}</answer>", "correct": 0.0, "reward": 0.0, "outcome": "graded"}


def with_every_trick(run: Path, marker: Path) -> None:
    """Puts what lines 1 to 6 of the findings are about into a stranger's folder, but for what config.yaml names."""
    (checkpoint,) = (run / "checkpoints").iterdir()
    model = json.loads((checkpoint / "config.json").read_text())
    classes = {"AutoConfig": "theirs.Config", "AutoModelForCausalLM": "theirs.Model"}
    write_json(checkpoint / "config.json", {**model, "auto_map": classes})
    shutil.copy("theirs.py", checkpoint)
    megatron = {
        "peft_type": "LORA",
        "megatron_config": {"a": 1},
        "megatron_core": "theirs",
        "target_modules": ["q_proj"],
    }
    write_json(checkpoint / "training" / "adapter_config.json", megatron)
    write_manifest(checkpoint, 1)  # which would say that the files were changed
    (checkpoint / "tokens.txt").symlink_to("/etc/hostname")
    lines = read_json_lines(records(run))
    for line in lines:
        line["prompt"], line["response"] = "1+1=<eos>", f"\\boxed{{{START.format(marker=marker)}}}"
    write_json_lines(records(run), lines)
    others = [countdown(deed.format(marker=marker)) for deed in (WRITE, START)]
    write_json_lines(run / "evaluation" / "countdown.jsonl", others)
    write_json_lines(run / "grade.jsonl", [{"gold": "3", "response": line["response"]} for line in [*lines, *others]])
    entry = {"key": "k #12345678", "expression": "theirs:bonus", "name": "x", "asked": "theirs:bonus"}
    grid = {"objectives": [entry], "seeds": [0], "words": ["task.reward=theirs:reward"], "baseline": "theirs:bonus"}
    write_json(run.parent / "grid.json", grid)
    write_json(run / "evaluation" / "results.json", {"x": {"settings": {"task": "theirs:Arithmetic"}, "figures": {}}})


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.parametrize("names", [True, False])
def test_no_command_runs_anything_of_a_strangers_folder(
    names: bool,
    run: Path,
    marker: Path,
    clean: Path,
    hub: Hub,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    with_every_trick(run, marker)
    if names:
        outside(run)
        for key, value in NAMES:
            say(run, key, value)
    statuses = [
        main([*words])
        for words in (
            ["leaderboard", str(clean), str(run), "output=board"],
            ["leaderboard", str(run.parent), "output=board"],
            ["eval", str(run), "output=evaluated"],
            ["inspect", str(run)],
            ["grade", "regrade=true", str(records(run))],
            ["grade", "regrade=true", str(run / "evaluation" / "countdown.jsonl")],
            ["grade", str(run / "grade.jsonl"), "output=graded.jsonl"],
            ["doctor", str(run)],
            ["doctor", str(run), "--json"],
            ["push", str(run), "someone/model"],
            ["compare", "grpo", *WORDS, f"output={run.parent}"],
            ["train", *WORDS, "objective=grpo", "output=runs/{task}-{objective}-{seed}"],
            ["fit", str(run / "config.yaml")],
            ["task", str(run / "config.yaml")],
            ["objectives", "--for", "entropy_collapse"],
            ["suite", "experiments=theirs", f"output={run.parent}"],
            ["suite", "theirs:bonus", "experiments=nobody", f"output={run.parent}"],
        )
    ]
    shown = capsys.readouterr()
    assert not marker.exists() and "Traceback" not in shown.err
    refused = [2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 2, 0, 2, 2] if names else [2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]
    assert statuses == [*refused, 0, 2, 2], shown.err
    assert not {"theirs.py", "tokens.txt", "adapter_config.json"} & hub.files.keys()
