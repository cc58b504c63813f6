"""The leaderboard: what may be compared, what is compared, and that the table says no more than the runs do."""

import csv
import io
import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rlzoo
from objectives import parse
from rlzoo.commands import main
from rlzoo.comparing.finished_runs import read_runs
from rlzoo.comparing.grid import read_grid
from rlzoo.comparing.leaderboard import Leaderboard, make_leaderboard
from rlzoo.comparing.result_table import read_result_table, scores_of
from rlzoo.config import load_config
from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines, write_json_lines
from rlzoo.report.leaderboard import comma_separated, markdown, page, results_table
from rlzoo.report.leaderboard_figures import strokes
from rlzoo.report.leaderboard_sentences import headlines, notes, verdict_words
from rlzoo.report.leaderboard_statistics import REWARDS
from rlzoo.report.table import TERMINAL
from rlzoo.statistics.verdicts import Finding, Measured
from tests.comparing.finished_runs import AS_MADE, DECODINGS, SAMPLES, STEPS, make_run, records, row_of
from tests.conftest import error_of


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """grpo, a better and a nearly equal method, three seeds each."""
    folder = tmp_path_factory.mktemp("runs")
    for objective, accuracy in {"grpo": 0.4, "stapo-s2t": 0.75, "dapo": 0.401}.items():
        for seed in (0, 1, 2):
            make_run(folder / f"{objective}-{seed}", objective, seed, accuracy)
    return folder


@pytest.fixture
def runs(made_once: Path, tmp_path: Path) -> list[str]:
    """These runs, in a folder of the test's own."""
    folder = shutil.copytree(made_once, tmp_path / "runs")
    return [str(folder / f"{objective}-{seed}") for objective in ("grpo", "stapo-s2t", "dapo") for seed in (0, 1, 2)]


def board(folders: list[str]) -> Leaderboard:
    """The leaderboard of run folders."""
    found, baseline, notes = read_runs(folders)
    return make_leaderboard(found, baseline, notes=notes)


def test_rows_are_canonical_expressions_sorted_by_accuracy(runs: list[str]) -> None:
    rows = board(runs).rows
    assert str(rows[0].name) == "justrl"
    assert {str(row.name) for row in rows} == {"justrl", "grpo", "dapo"}
    means = [row.results[DECODINGS[0]].accuracy.mean for row in rows]
    assert means == sorted(means, reverse=True)


def test_a_folder_of_runs_is_all_that_are_done_in_it(runs: list[str]) -> None:
    folder = Path(runs[0]).parent
    (folder / "logs").mkdir()
    RunFolder(Path(runs[0])).end.unlink()
    found, _, notes = read_runs([str(folder)])
    assert sorted(str(run.folder.path) for run in found) == sorted(runs[1:])
    assert notes == [f"1 of the 9 runs of {folder} are not done and left out."]


def test_a_grid_in_a_folder_of_runs_is_named(runs: list[str]) -> None:
    folder = Path(runs[0]).parent
    read_grid(["grpo", "seeds=0", f"output={folder / 'compare'}"])[0].save()
    _, _, notes = read_runs([str(folder)])
    assert notes == [f"{folder}/compare is a grid and left out; rlzoo leaderboard {folder}/compare shows it."]


@pytest.mark.slow
def test_objectives_that_are_written_alike_stay_two_rows(tmp_path: Path) -> None:
    folders = [
        make_run(tmp_path / f"{name}-{seed}", "stapo", seed, a)
        for name, a in (("a", 0.3), ("b", 0.6))
        for seed in (0, 1)
    ]
    for folder in folders:
        key = parse("stapo").key if folder.name.startswith("a") else "stapo of another time #0123456789"
        (folder / "objective.json").write_text(json.dumps({"key": key, "expression": "stapo"}))
    found = board([str(folder) for folder in folders])
    assert [str(row.name) for row in found.rows] == ["stapo #0123456789", f"stapo #{parse('stapo').key[-10:]}"]
    assert [row.seeds for row in found.rows] == [(0, 1), (0, 1)] and found.baseline == found.rows[1]
    for text in (page(found), markdown(found), comma_separated(found)):
        assert all(str(row.name) in text for row in found.rows)
    assert len(strokes(found.rows)) == 2


def test_the_last_step_counts_even_if_an_earlier_one_was_better(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", accuracy=0.3)
    for decoding in DECODINGS:
        perfect = [record | {"correct": 1.0} for record in records(np.random.default_rng(0), 1.0)]
        Evaluation(perfect, SAMPLES).save(RunFolder(folder).evaluation(2, decoding))
    assert board([str(folder)]).rows[0].results[DECODINGS[0]].accuracy.mean < 0.6


def test_runs_that_answered_alike_are_said_to(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / f"{name}-{seed}", name, seed) for name in ("grpo", "dapo") for seed in (0, 1)]
    found = board([str(folder) for folder in folders])
    assert any("dapo and grpo answered just the same" in note or "grpo and dapo" in note for note in notes(found))
    assert row_of(found, "dapo").results[DECODINGS[0]].average.verdict.finding is Finding.SAME_RESPONSES


def rewritten(folder: Path, **fields: object) -> Path:
    """A run whose kept responses have these fields."""
    for decoding in DECODINGS:
        path = RunFolder(folder).evaluation(STEPS, decoding)
        Evaluation([record | fields for record in Evaluation.load(path).records], SAMPLES).save(path)
    return folder


def test_the_same_texts_with_other_grades_are_not_the_same_answers(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / f"{name}-{seed}", name, seed) for name in ("grpo", "dapo") for seed in (0, 1)]
    found = board([str(folder if "grpo" in folder.name else rewritten(folder, correct=1.0)) for folder in folders])
    average = row_of(found, "dapo").results[DECODINGS[0]].average
    assert average.estimate.mean == 1 and average.verdict.finding is not Finding.SAME_RESPONSES and not found.alike


def test_responses_that_were_graded_otherwise_are_refused(tmp_path: Path) -> None:
    usual, other = {"name": "sums", "options": {}, "wrong_reward": 0.0}, {"reward": ["kind.py:everything"]}
    one, two = (make_run(tmp_path / name, name) for name in ("grpo", "dapo"))
    board([str(rewritten(one, task=usual)), str(two)])
    board([str(one), str(rewritten(two, task=usual | {"grade_truncated": False}))])
    rewritten(two, task=usual | other)
    with pytest.raises(UserError, match=r"at T=1, top-p=1 are graded with task.reward=\[\] in one and \['kind"):
        board([str(one), str(two)])


def test_runs_that_began_with_other_weights_or_data_are_refused(tmp_path: Path) -> None:
    one, two = (make_run(tmp_path / name, name) for name in ("grpo", "dapo"))
    began = {"model.name": {"config.json": "1", "model.safetensors": "2"}, "task.name": {"train.jsonl": "3"}}
    RunFolder(one).content.write_text(json.dumps(began))
    board([str(one), str(two)])
    RunFolder(two).content.write_text(json.dumps({"model.name": began["model.name"]}))
    board([str(one), str(two)])
    for key, file in (("model.name", "model.safetensors"), ("task.name", "train.jsonl")):
        RunFolder(two).content.write_text(json.dumps(began | {key: began[key] | {file: "4"}}))
        with pytest.raises(UserError, match=f"they began with different files of {key}, {file}; leave one"):
            board([str(one), str(two)])
    own = replace(read_runs([str(two)])[0][0], settings=("task.name=other.jsonl",))
    make_leaderboard([*read_runs([str(one)])[0], own])


def test_equivalence_is_asked_in_points(runs: list[str]) -> None:
    found, _, _ = read_runs(runs)
    wide = row_of(make_leaderboard(found, equivalence=99), "dapo").results[DECODINGS[0]].average.verdict
    assert wide.finding is Finding.SAME and verdict_words(wide).startswith("the same within 99")
    with pytest.raises(UserError, match=r"equivalence=-1 must be from 0 to 100"):
        rlzoo.leaderboard(*runs, equivalence=-1)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("train.learning_rate=1", "train.learning_rate is 0.00015 in one and 1.0 in the other"),
        (f"train.steps={STEPS + 1}", f"train.steps is {STEPS} in one and {STEPS + 1} in the other"),
        ("evaluation.decodings=[1/1]", "evaluation.decodings is"),
        ("evaluation.samples=9", "evaluation.samples is 4 in one and 9 in the other"),
    ],
)
def test_runs_that_differ_in_more_than_objective_and_seed_are_refused(word: str, says: str, tmp_path: Path) -> None:
    one = make_run(tmp_path / "one")
    other = make_run(tmp_path / "other", "dapo", 0, 0.5, word)
    for path in (other / "evaluation").glob("*"):
        shutil.copy(path, path.with_name(path.name.replace(f"{STEPS:06d}", f"{STEPS + 1:06d}")))
    with pytest.raises(UserError, match=r"one and .*other cannot be compared") as error:
        board([str(one), str(other)])
    assert says in str(error.value) and "\n" not in str(error.value)


def test_runs_that_were_asked_different_problems_are_refused(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / "one"), make_run(tmp_path / "other", "dapo")]
    path = RunFolder(folders[1]).evaluation(STEPS, Decoding(1.0, 1.0))
    path.write_text(path.read_text().replace('"p7"', '"p70"'))
    with pytest.raises(UserError, match="different problems, p7 in one and p70 in the other"):
        board([str(folder) for folder in folders])


def test_what_responses_do_not_record_is_unknown_or_one_line(runs: list[str]) -> None:
    def without(folder: str, name: str) -> None:
        for path in (Path(folder) / "evaluation").glob("*.jsonl"):
            lines = [{key: value for key, value in line.items() if key != name} for line in read_json_lines(path)]
            write_json_lines(path, lines)

    for name in ("tokens", "final_answer"):
        without(runs[-1], name)
    found = board(runs)
    for text in (page(found), markdown(found), comma_separated(found)):
        assert "dapo" in text
    assert row_of(found, "dapo").results[DECODINGS[0]].length is None
    assert row_of(found, "grpo").results[DECODINGS[0]].length == 9
    assert all("maj" not in result.measured for row in found.rows for result in row.results.values())
    without(runs[-1], "prompt")
    with pytest.raises(UserError, match=r"dapo-2.*\.jsonl is not readable: it has no .prompt"):
        board(runs)


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, twin = make_run(tmp_path / "run"), make_run(tmp_path / "twin")
    undone = make_run(tmp_path / "undone")
    RunFolder(undone).end.unlink()
    for words, says in (
        (["nowhere"], "neither a run"),
        ([str(undone)], "is not done (step 5 of 5)"),
        ([str(run), str(twin)], "both grpo with seed=0"),
        ([str(run), "baseline=dapo"], "baseline=dapo is not among the runs"),
        ([str(run), "baseline=daapo"], "did you mean dapo"),
        ([str(run), "objective=dapo"], "unknown key objective"),
        (["title=x"], "name a grid or runs"),
    ):
        assert says in error_of(capsys, "leaderboard", *words)


@pytest.mark.smoke
@pytest.mark.slow
def test_it_writes_a_picture_a_page_markdown_and_csv_that_agree(
    runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["leaderboard", *runs, f"output={tmp_path}/out"]) == 0
    output, found = capsys.readouterr().out, board(runs)
    best = found.rows[0]
    value = f"{100 * best.results[DECODINGS[1]].accuracy.mean:.1f}"
    lines = list(csv.DictReader(io.StringIO((tmp_path / "out" / "leaderboard.csv").read_text())))
    assert [line["objective"] for line in lines] == [str(row.name) for row in found.rows] * 2
    assert float(lines[len(found.rows)]["accuracy"]) == best.results[DECODINGS[1]].accuracy.mean
    scores = [float(lines[len(found.rows)][f"accuracy_seed_{seed}"]) for seed in best.seeds]
    assert scores == list(best.results[DECODINGS[1]].average.by_seed)
    assert f"{100 * best.results[DECODINGS[0]].accuracy.mean:.1f}" in output and "justrl" in output
    for text in ((tmp_path / "out" / f"leaderboard.{it}").read_text() for it in ("md", "html")):
        assert value in text and "justrl" in text
    assert (tmp_path / "out" / "leaderboard.png").read_bytes().startswith(b"\x89PNG")
    assert max(len(line) for line in output.splitlines() if str(tmp_path) not in line) <= 80
    answers = scores_of(read_result_table(tmp_path / "out" / "answers.parquet"))
    for place, decoding in zip(answers.places, DECODINGS, strict=True):
        for row in found.rows:
            means = [run.answers[place].correct.mean() for run in answers.runs[str(row.name)]]
            assert means == list(row.results[decoding].average.by_seed)


def test_the_command_of_a_row_leads_to_the_same_settings(tmp_path: Path) -> None:
    words = ("model.reference=none", "train.betas=[0.8,0.95]", 'task.options={"digits":3}')
    run = make_run(tmp_path / "run", "stapo(tau_p=0.005)", 3, 0.5, *words)
    (training,) = board([str(run)]).trainings.values()
    typed = shlex.split(training.command)
    assert typed[:2] == ["rlzoo", "compare"]
    grid, _ = read_grid(typed[2:])
    config, made = load_config([str(RunFolder(run).config)]), grid.cells[0].config
    for own in (config, made):
        own.output, own.resume, own.checkpoint.every = "", False, 0
    assert made == config


def test_the_commands_of_rows_with_settings_join_one_grid(tmp_path: Path) -> None:
    rows = ["grpo train.learning_rate=1e-4", "grpo train.learning_rate=2e-4"]
    grid, _ = read_grid([*rows, "seeds=0", *AS_MADE, f"output={tmp_path}"])
    grid.save()
    for cell in grid.cells:
        make_run(cell.folder.path, "grpo", 0, 0.5, *cell.entry.settings)
    typed = [shlex.split(it.command)[2:] for it in board([str(tmp_path)]).trainings.values()]
    assert [words[0] for words in typed] == rows and typed[0][1:] == typed[1][1:]


def test_runs_of_one_objective_are_one_row_however_they_were_asked_for(tmp_path: Path) -> None:
    words = ["seeds=0", f"train.steps={STEPS}", "evaluation.problems=12", "evaluation.samples=4"]
    grid, _ = read_grid([*words, "evaluation.decodings=[1/1,0.7/0.9]", f"output={tmp_path / 'grid'}"], ["grpo"])
    grid.save()
    for number, cell in enumerate(grid.cells):
        make_run(cell.folder.path, cell.entry.expression, cell.seed, 0.3 + 0.04 * number)
    alone = make_run(tmp_path / "alone", "grpo-kl", 1, 0.35)
    found = board([str(tmp_path / "grid"), str(alone)])
    row = next(row for row in found.rows if row.identity[0] == parse("grpo-kl").key)
    assert row.seeds == (0, 1) and str(row.name) == "grpo without kl" and row.name.alias == "grpo-kl"
    assert len(found.rows) == len(grid.objectives)


def test_two_rows_are_never_called_the_same(tmp_path: Path) -> None:
    folders = []
    for place, objective in (("one", "dapo"), ("other", "stapo")):
        grid, _ = read_grid(["grpo", "seeds=0", f"train.steps={STEPS}", f"output={tmp_path / place}"])
        for cell in grid.cells:
            make_run(cell.folder.path, objective, 0)
        entry = replace(grid.objectives[0], asked="kl", without="kl", key=parse(objective).key, expression=objective)
        replace(grid, objectives=(entry,)).save()
        folders.append(str(tmp_path / place))
    assert {str(row.name) for row in board(folders).rows} == {"dapo", "stapo"}


def test_the_environment_shows_every_value_that_the_runs_have(runs: list[str]) -> None:
    (Path(runs[1]) / "environment.json").write_text(json.dumps({"torch": "2.14.0", "commit": "0123abc"}))
    assert board(runs).environment == {"torch": ["2.13.0", "2.14.0"], "commit": ["0123abc"]}


def test_a_row_has_the_figures_of_the_seeds_that_it_ran_and_no_others(tmp_path: Path) -> None:
    """Also where those seeds answered as another row's did, which has further ones."""
    folders = [make_run(tmp_path / f"grpo-{seed}", "grpo", seed, 0.2) for seed in range(2)]
    folders += [make_run(tmp_path / f"dapo-{seed}", "dapo", seed, 0.5 - 0.3 * (seed == 2)) for seed in range(3)]
    for seed in range(2):
        folders.append(make_run(tmp_path / f"stapo-{seed}", "stapo", seed))
        shutil.copytree(tmp_path / f"dapo-{seed}" / "evaluation", folders[-1] / "evaluation", dirs_exist_ok=True)
    found = board([str(folder) for folder in folders])
    result, whole = (row_of(found, name).results[DECODINGS[0]].average for name in ("stapo", "dapo"))
    assert result.by_seed == whole.by_seed[:2]
    assert result.estimate.mean == pytest.approx(np.mean(result.by_seed))
    assert result.difference and whole.difference and result.difference.mean > whole.difference.mean
    assert not found.alike


def graded(folder: Path, seed: int, objective: str, better: float) -> Path:
    """A run without a right answer, whose rewards are graded from -1 to 2."""
    run = RunFolder(make_run(folder / f"{objective}-{seed}", objective, seed))
    for decoding in DECODINGS:
        path = run.evaluation(STEPS, decoding)
        records, draws = Evaluation.load(path).records, np.random.default_rng([seed, len(objective)])
        rewards = np.clip(draws.normal(0.2 + better, 0.3, len(records)), -1, 2)
        for record, reward in zip(records, rewards, strict=True):
            record |= {"correct": 0.0, "reward": float(reward), "response": f"{reward}"}
        Evaluation(records, SAMPLES).save(path)
    return run.path


def test_what_is_said_of_a_reward_is_in_its_unit(tmp_path: Path) -> None:
    folders = [str(graded(tmp_path, seed, name, 0.01)) for name in ("grpo", "cispo") for seed in (0, 1, 2)]
    board = make_leaderboard(read_runs(folders)[0], equivalence=50)
    assert board.rewards
    place, span = board.decodings[0], board.rewards.high - board.rewards.low
    share = row_of(board, "cispo").results[place].measured["reward"]
    assert share.difference and share.verdict.finding is Finding.SAME and span > 1
    line = next(it for it in csv.DictReader(comma_separated(board).splitlines()) if it["objective"] == "cispo")
    assert float(line["reward_difference"]) == pytest.approx(span * share.difference.mean)
    assert float(line["reward_detectable"]) == pytest.approx(span * share.difference.detectable)
    assert line["reward_verdict"] == f"the same within {span / 2:g}" and line["verdict"] != line["reward_verdict"]


def test_a_mean_reward_is_judged_as_accuracy_is_where_it_says_more(tmp_path: Path) -> None:
    folders = [
        str(graded(tmp_path, seed, objective, better))
        for objective, better in (("grpo", 0.0), ("dapo", 0.6))
        for seed in range(4)
    ]
    board = make_leaderboard(read_runs(folders)[0])
    dapo = row_of(board, "dapo")
    assert board.rows[0] is dapo  # no accuracy tells them apart
    for place in board.decodings:
        shown = REWARDS.value(board, dapo, place)
        assert isinstance(shown, Measured) and shown.difference
        assert shown.verdict.finding is Finding.BETTER
        rewards = [
            np.mean([record["reward"] for record in run.evaluations[place].records])  # type: ignore[index]
            for run in read_runs(folders[4:])[0]
        ]
        assert shown.by_seed == pytest.approx(rewards)
        assert shown.estimate.low < np.mean(rewards) < shown.estimate.high
        assert f"At {place}, no row has a right answer: look at the reward." in headlines(board)
        assert any(
            line.startswith(f"At {place}, by mean reward, better than grpo: dapo (+") for line in headlines(board)
        )
    assert "reward_verdict" in comma_separated(board).splitlines()[0]
    assert "mean reward" in [column.heading for column in results_table(board, place).seen(TERMINAL)[0]]
    assert "| mean reward |" in markdown(board)
    plain = make_leaderboard(read_runs([str(make_run(tmp_path / f"plain-{seed}", seed=seed)) for seed in (0, 1)])[0])
    assert plain.rewards is None and "reward" not in plain.rows[0].results[DECODINGS[0]].measured
