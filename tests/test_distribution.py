"""What is published: the contents of the wheel and the sdist, and the recipes that build, check and install them.

By default both are built here. ``SCOTOPIC_DIST`` names a folder of built ones to check instead, as a release does.
"""

from __future__ import annotations

import email
import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path, PurePosixPath

import pytest
import yaml

import scotopic

ROOT = Path(__file__).parent.parent
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
#: What else than Python belongs to the package: data that its code reads.
DATA = {".toml", ".csv", ".html", ".js", ".css", ".typed"}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def run(*command: object, **keywords: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=300, **keywords)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return done  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built wheel and sdist; the wheel is built from the sdist."""
    given = os.environ.get("SCOTOPIC_DIST")
    if given:
        return Path(given)
    missing = [name for name in ("build", "hatchling") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}: pip install 'scotopic[dev]'")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def sdist(dist: Path) -> Path:
    (path,) = dist.glob("*.tar.gz")
    return path


def of_package() -> set[str]:
    """The files of the package in the repository."""
    files = [path for path in (ROOT / "src" / "scotopic").rglob("*") if path.is_file()]
    return {path.relative_to(ROOT / "src").as_posix() for path in files if "__pycache__" not in path.parts}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    own = {name for name in names if not name.split("/")[0].endswith(".dist-info")}

    assert own == of_package()
    assert {PurePosixPath(name).suffix for name in own} <= {".py", *DATA}  # no images, no networks, no arrays
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


@pytest.mark.parametrize(
    "name",
    ["py.typed", "evaluation/recipes/hitnet.toml", "evaluation/plans/quick.toml", "evaluation/split.toml",
     "evaluation/methods/reported.csv", "evaluation/report/page.html", "app/style.css"],
)  # fmt: skip
def test_the_wheel_holds_the_files_that_the_code_reads(wheel: Path, name: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"scotopic/{name}") == (ROOT / "src" / "scotopic" / name).read_bytes()


def test_the_sdist_holds_what_the_wheel_is_built_from(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    names = {member.name.partition("/")[2] for member in members if member.isfile()}
    others = {name for name in names if not name.startswith("src/scotopic/")}

    assert {name.removeprefix("src/") for name in names - others} == of_package()
    # No tests, which need data of third parties, and none of their results.
    assert others == {
        ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "PKG-INFO", "README.md",
        "pyproject.toml",
    }  # fmt: skip
    assert all(member.isfile() or member.isdir() for member in members)  # no links


def test_the_metadata_say_what_pypi_shows(wheel: Path) -> None:
    found = metadata(wheel)

    assert found["Name"] == "scotopic"
    assert found["Version"] == scotopic.__version__
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    assert found.get_payload()
    assert set(found.get_all("Provides-Extra", [])) == set(EXTRAS)


def test_pypi_would_take_both(dist: Path) -> None:
    if importlib.util.find_spec("twine") is None:
        pytest.skip("needs twine: pip install 'scotopic[dev]'")
    files = sorted(dist.glob("*"))

    said = run(sys.executable, "-m", "twine", "check", "--strict", *files)

    assert said.stdout.count("PASSED") == len(files) == 2


def test_the_installed_wheel_works_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    install = ("-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", tmp_path / "site")
    run(sys.executable, *install, wheel)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    program = (
        "import json, scotopic; from scotopic.evaluation.plan import load_plan\n"
        "print(json.dumps([scotopic.__file__, str(load_plan('quick'))]))"
    )

    version = run(sys.executable, "-m", "scotopic", "--version", cwd=tmp_path, env=environment)
    file, plan = json.loads(run(sys.executable, "-c", program, cwd=tmp_path, env=environment).stdout)

    assert version.stdout.strip() == f"scotopic {scotopic.__version__}"
    assert Path(file).is_relative_to(tmp_path / "site")
    assert plan


# The recipes


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_an_image_is_built_from_the_wheel_and_runs_as_a_plain_user(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    steps = [tuple(line.split(" ", 1)) for line in lines]
    last = max(number for number, (name, _) in enumerate(steps) if name == "FROM")
    building, running = steps[:last], steps[last:]

    assert any(text.endswith(" AS build") for name, text in building if name == "FROM")
    assert ("RUN", "python -m build --wheel --outdir /wheels") in building
    copied = [source for name, text in building if name == "COPY" for source in text.split()[:-1]]
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) == kept
    assert all((ROOT / source).exists() for source in copied)
    assert ("COPY", "--from=build /wheels /wheels") in running
    install = next(text for name, text in running if "pip install" in text)
    assert '"$(ls /wheels/*.whl)[$EXTRAS]"' in install
    extras = next(text for name, text in running if name == "ARG").removeprefix("EXTRAS=").split(",")
    assert set(extras) <= set(EXTRAS)
    assert ("gpu" in extras) == (path.stem == "cuda")
    users = [text for name, text in running if name == "USER"]
    assert users == ["scotopic"]
    assert any(f"useradd --create-home {users[0]}" in text for _, text in running)
    assert [text for name, text in running if name == "ENTRYPOINT"] == ['["scotopic"]']


def test_there_are_images_for_the_cpu_and_for_a_gpu() -> None:
    assert {path.stem for path in DOCKERFILES} == {"cpu", "cuda"}


def test_a_release_builds_checks_and_publishes_without_a_password() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    workflow = yaml.safe_load(text)
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    commands = "\n".join(step.get("run", "") for step in build["steps"])

    assert workflow[True]["push"] == {"tags": ["v*"]}  # to YAML, "on" is true
    for command in (
        "python -m build",
        "twine check --strict dist/*",
        "tests/test_distribution.py",
        "scotopic --version",
    ):
        assert command in commands
    assert "SCOTOPIC_DIST=dist" in commands
    assert publish["needs"] == "build"
    assert publish["permissions"] == {"id-token": "write"}
    assert any("pypa/gh-action-pypi-publish" in step["uses"] for step in publish["steps"])
    assert not re.search(r"secrets\.|password:", text)


def test_a_release_checks_that_the_version_is_the_tag(tmp_path: Path) -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    (check,) = [step["run"] for step in workflow["jobs"]["build"]["steps"] if "tag's" in step.get("name", "")]
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "scotopic-1.2.3.tar.gz").touch()

    codes = [
        subprocess.run(["bash", "-ec", check], cwd=tmp_path, env={**os.environ, "GITHUB_REF_NAME": tag}).returncode
        for tag in ("v1.2.3", "v1.2.4")
    ]

    assert codes == [0, 1]
