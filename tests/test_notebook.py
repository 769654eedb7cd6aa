"""The notebook in examples/: it runs from top to bottom, says something true, and is kept without outputs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

import scotopic

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"

nbformat = pytest.importorskip("nbformat", reason="needs nbformat: pip install 'scotopic[dev]'")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells with code, after they ran, one after the other, in an empty folder."""
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient: pip install 'scotopic[dev]'")
    pytest.importorskip("ipykernel", reason="needs ipykernel: pip install 'scotopic[dev]'")
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # In the tests Triton interprets its kernels; for a user it does not.
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(Path(scotopic.__file__).parent.parent)  # the package under test, wherever it lies
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment)  # raises where a cell does
    assert (folder / "first-steps" / "match.npz").is_file()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def said(cells: list[Any]) -> str:
    return "".join(output.get("text", "") for cell in cells for output in cell.outputs)


def test_the_notebook_runs_from_top_to_bottom_without_a_warning(cells: list[Any]) -> None:
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell.outputs if output.get("name") == "stderr"]


def test_it_shows_pictures(cells: list[Any]) -> None:
    shown = [output.data for cell in cells for output in cell.outputs if "data" in output]

    assert sum("image/png" in data for data in shown) == 4


def test_what_it_prints_is_what_its_text_says(cells: list[Any]) -> None:
    rows = re.findall(r"confidence >= \d\.\d: +([\d.]+)% of the pixels, +([\d.]+)% within", said(cells))
    covered, right = zip(*((float(first), float(second)) for first, second in rows), strict=True)

    assert len(rows) >= 3
    assert covered[0] == 100  # without a limit every pixel counts
    assert list(covered) == sorted(covered, reverse=True)
    assert right[-1] > right[0]  # more confidence: fewer and better pixels


def test_it_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)

    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
