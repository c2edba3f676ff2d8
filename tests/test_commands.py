import gzip
import json
import os
import subprocess
import sys

import pytest

from placement_viz.commands import SUBCOMMANDS, main
from tests.builders import event, timeline


@pytest.fixture
def auto(tmp_path):
    """Return a timeline with one misplaced gradient op."""
    path = tmp_path / "auto.json"
    path.write_bytes(
        timeline(
            event("mm", pid=2),
            event("gradients/mm_grad/Mul", pid=1, ts=200),
            rows=("CPU:0", "CPU:1"),
        )
    )
    return path


@pytest.fixture
def home(tmp_path):
    """Return the same step with the gradient op at home, gzipped."""
    path = tmp_path / "home.json.gz"
    data = timeline(
        event("mm"), event("gradients/mm_grad/Mul", ts=200), rows=("CPU:1",)
    )
    path.write_bytes(gzip.compress(data))
    return path


def test_analyze_prints_the_answer(auto, capsys):
    """The headline is the first line."""
    assert main(["analyze", str(auto)]) == 0
    assert capsys.readouterr().out.startswith("1 of 1 gradient op ran on CPU:0; 1 of")


def test_json_on_standard_output_is_alone_there(auto, capsys):
    """``-`` is standard output, and then nothing else is printed."""
    assert main(["analyze", str(auto), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["misplaced_ops"] == 1


def test_json_into_a_file_leaves_the_text_on_the_terminal(auto, capsys, tmp_path):
    """Both are had at once, and no draft of the file is left behind."""
    target = tmp_path / "out" / "result.json"
    target.parent.mkdir()

    assert main(["analyze", str(auto), "--json", str(target)]) == 0
    assert json.loads(target.read_text())["schema"] == 1
    assert "belongs on CPU:1" in capsys.readouterr().out
    assert list(target.parent.iterdir()) == [target]


def test_what_is_no_file_is_written_into_and_never_replaced(auto, tmp_path):
    """A pipe gets the result and stays a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)

    assert main(["analyze", str(auto), "--json", str(pipe)]) == 0
    output, _ = reader.communicate(timeout=60)
    assert json.loads(output)["schema"] == 1
    assert pipe.is_fifo()


def test_a_link_stays_a_link(auto, tmp_path):
    """The file that it points to gets the result."""
    (tmp_path / "results").mkdir()
    link, target = tmp_path / "latest.json", tmp_path / "results" / "result.json"
    link.symlink_to(target)

    assert main(["analyze", str(auto), "--json", str(link)]) == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["schema"] == 1


def test_a_page_and_a_table_are_written_at_once(auto, tmp_path):
    """Each format goes to its own file, and the page needs nothing else."""
    page, table = tmp_path / "run.html", tmp_path / "run.csv"

    assert main(["analyze", str(auto), "--html", str(page), "--csv", str(table)]) == 0
    assert "Plotly.newPlot" in page.read_text()
    assert "src=" not in page.read_text().split("<body>")[0]
    assert table.read_text().count("\n") == 2


def test_compare_prints_what_moved(auto, home, capsys):
    """Plain and gzipped runs are compared alike."""
    assert main(["compare", str(auto), str(home)]) == 0
    assert capsys.readouterr().out.startswith(
        "1 op moved; misplaced gradient ops 1 → 0"
    )


def test_compare_writes_json(auto, home, capsys):
    """The comparison is a document too."""
    assert main(["compare", str(auto), str(home), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["moves"][0]["kind"] == "fixed"


@pytest.mark.parametrize("command", ["analyze", "compare"])
def test_an_unusable_file_is_one_line_and_exit_code_1(command, auto, capsys, tmp_path):
    """The line says which file and what is wrong with it."""
    broken = tmp_path / "broken.json"
    broken.write_bytes(auto.read_bytes()[:80])
    arguments = [command, str(broken), str(auto)][: 2 if command == "analyze" else 3]

    assert main(arguments) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert f"{broken}: byte 80: expected the rest of the JSON" in captured.err


def test_an_unwritable_result_is_one_line_and_exit_code_1(auto, capsys, tmp_path):
    """A result that cannot be written is an error, not a traceback."""
    target = tmp_path / "missing" / "result.json"

    assert main(["analyze", str(auto), "--json", str(target)]) == 1
    assert f"{target}: expected a place to write to" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["explain"], ["analyze"], ["analyze", "-x"]])
def test_wrong_usage_is_exit_code_2(arguments, capsys):
    """A mistake on the command line is told from a bad file."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert "usage: placement-viz" in capsys.readouterr().err


@pytest.mark.parametrize("command", SUBCOMMANDS)
def test_every_subcommand_has_help(command, capsys):
    """``--help`` lists each one with its purpose, and each explains itself."""
    with pytest.raises(SystemExit):
        main(["--help"])
    assert SUBCOMMANDS[command] in " ".join(capsys.readouterr().out.split())

    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"usage: placement-viz {command}" in capsys.readouterr().out


def test_the_module_is_the_program(auto):
    """``python -m placement_viz`` is the same program, down to the exit code."""
    program = [sys.executable, "-m", "placement_viz"]

    good = subprocess.run(
        [*program, "analyze", str(auto)], capture_output=True, check=False
    )
    bad = subprocess.run([*program, "analyze", "x"], capture_output=True, check=False)

    assert (good.returncode, bad.returncode) == (0, 1)


def test_a_closed_pipe_is_no_error(auto):
    """``placement-viz analyze … | head -0`` ends quietly."""
    program = f"{sys.executable} -m placement_viz analyze {auto} --json - | head -c 1"

    ended = subprocess.run(program, shell=True, capture_output=True, check=False)  # noqa: S602 - a pipe is what is tested

    assert ended.stderr == b""
