import re
import subprocess
import sys

import pytest

from placement_viz.commands import SUBCOMMANDS
from tests.builders import ROOT, SAMPLES

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
        words = words[: words.index("train.py")] if "train.py" in words else words
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
