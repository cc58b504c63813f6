"""What the terminal says of a run: its time, its steps, and what to type next."""

import io

from rich.console import Console

from rlzoo.report.terminal import _time_spent
from rlzoo.training.run import MODEL_PHASES, PHASES


def test_the_table_of_phases_fits_80_columns_and_adds_up() -> None:
    line = {"seconds": 4.0, "tokens": 100} | dict.fromkeys(PHASES, 0.5)
    line |= {f"{phase}_positions": 1_234_567 for phase in MODEL_PHASES}
    line |= {f"{phase}_flops": 5e11 for phase in MODEL_PHASES}
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(_time_spent([line, line], peak=2e12))
    text = console.export_text()
    assert max(len(row) for row in text.splitlines()) <= 80
    (train,) = (row.split() for row in text.splitlines() if row.strip().startswith("train"))
    assert train == ["train", "0.500", "12%", "1,234,567", "2469.1k", "1,000.0", "50%"]
    assert "4.000" in text and "25 sampled tokens/s" in text
