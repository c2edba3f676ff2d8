import re
import subprocess
import sys

import pytest

from placement_viz import analyze_run, load_run
from placement_viz.commands import SUBCOMMANDS
from tests.builders import ROOT, SAMPLES, environment

README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("command", SUBCOMMANDS)
def test_every_subcommand_is_in_the_readme(command):
    """What exists is documented."""
    assert f"placement-viz {command} " in README


def test_every_command_in_the_readme_parses():
    """What is documented exists: each example is accepted, as far as its options."""
    examples = re.findall(r"^placement-viz (\w+)((?: -\S+)*)", README, re.MULTILINE)

    assert examples
    for command, _ in examples:
        assert command in SUBCOMMANDS


def test_every_option_in_the_readme_exists():
    """Options that examples use are in the help of their command."""
    for line in re.findall(r"^placement-viz .*$", README, re.MULTILINE):
        command, *words = line.split()[1:]
        programs = [word for word in words if word in {"train.py", "my_package.train"}]
        words = words[: words.index(programs[0])] if programs else words
        text = subprocess.run(
            [sys.executable, "-m", "placement_viz", command, "--help"],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for option in (word for word in words if word.startswith("--")):
            assert option in text, f"{line}: {option}"


def test_paths_in_the_readme_exist():
    """Files that the README points at are there."""
    found = re.findall(r"`([\w./]+\.md)`|\]\((docs/[\w.]+)\)", README)

    assert found
    for each in found:
        path = "".join(each)
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda p: p.stem)
def test_every_sample_tells_its_origin(path):
    """How each sample was made stands beside it."""
    assert path.name in (SAMPLES / "README.md").read_text()


@pytest.mark.tensorflow
def test_the_examples_for_own_code_run(tmp_path):
    """What the page says to write works when it is written, and gives readable runs."""
    page = (ROOT / "docs" / "capture.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "example.py").write_text(example)
    subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, env=environment(), check=True
    )

    files = sorted((tmp_path / "runs").iterdir())
    assert [path.name for path in files] == [
        "block.json",
        "fit.json",
        "function.json",
        "hook.json",
        "step.json",
    ]
    for path in files:
        summary = analyze_run(load_run(path)).colocation.summary
        assert summary.gradient_ops > 0, path.name


def test_every_option_of_capture_is_on_its_page():
    """The page about capture leaves no option out."""
    page = (ROOT / "docs" / "capture.md").read_text()
    shown = subprocess.run(
        [sys.executable, "-m", "placement_viz", "capture", "--help"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout

    for option in set(re.findall(r"--[a-z-]+", shown)) - {"--help", "--epochs"}:
        assert f"`{option}" in page, option
