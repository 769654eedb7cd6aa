"""How to cite: the paper can be found from the file and from the README."""

from __future__ import annotations

from pathlib import Path

import yaml

import scotopic

ROOT = Path(__file__).parent.parent
ARXIV = "2606.00379"


def test_the_citation_leads_to_the_paper_and_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    paper = citation["preferred-citation"]

    assert citation["version"] == scotopic.__version__
    assert paper["url"] == f"https://arxiv.org/abs/{ARXIV}"
    assert f"arXiv:{ARXIV}" in [each["value"] for each in paper["identifiers"]]


def test_the_readme_links_to_the_paper() -> None:
    assert f"https://arxiv.org/abs/{ARXIV}" in (ROOT / "README.md").read_text()
