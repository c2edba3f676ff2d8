"""Running a program as Python would, which needs no TensorFlow."""

import json

import pytest

from placement_viz.capture.imports import after_import
from placement_viz.commands import main
from tests.scripts import last_line


def test_an_action_follows_the_import(tmp_path, monkeypatch):
    """An action sees the module that a program imports, after its code has run."""
    (tmp_path / "imported_later.py").write_text("value = 1")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    after_import({"imported_later": lambda module: seen.append(module.value)})

    assert seen == []
    import imported_later

    assert seen == [imported_later.value]


def test_an_action_on_an_imported_module_is_immediate():
    """A module that is loaded already is acted on at once."""
    seen = []
    after_import({"json": seen.append})

    assert seen == [json]


@pytest.mark.parametrize(
    "body",
    [
        "import sys; print(__name__, __file__, sys.argv, sys.path[0])",
        "import sys; sys.exit(7)",
        "import sys; sys.exit('no data')",
        "import sys; sys.exit(True)",
        "raise SystemExit",
        "print(undefined)",
        "import beside; print(beside.value)",
        "not python",
        "import __main__; value = 1; print(__main__.value, __doc__, __spec__)",
        "import threading as t; t.Timer(0.1, print, ['late']).start(); print('soon')",
    ],
)
def test_a_script_runs_as_python_runs_it(body, script, python, capture):
    """Output, traceback and exit code are those of ``python SCRIPT ARGS``."""
    script("value = 5", name="beside.py")
    command = (script(body), "--step", "9", "--", "-x")
    plain = python(*command)

    result = capture(*command)

    assert result.stdout == plain.stdout
    assert result.stderr.startswith(plain.stderr)
    # Ending well without a step is the one thing that is changed.
    assert result.returncode == (plain.returncode or 1)


def test_arguments_after_the_script_are_its_own(script, capture):
    """Options that capture knows too, and a double dash, go to the script."""
    name = script("import sys; print(sys.argv[1:])")

    assert capture(name, "--step", "--", "x").stdout == "['--step', '--', 'x']\n"
    assert capture("--", name, "--", "x").stdout == "['--', 'x']\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.py",), "missing.py: expected a Python script, found nothing there"),
        ((".",), ".: expected a Python script, found a folder"),
        (("--out", "train.py", "train.py"), "train.py: expected a folder to write to"),
        (("train.py",), "train.py: expected a TensorFlow program"),
        (
            ("--placement", "both", "--out", "x.json", "train.py"),
            "x.json: expected a folder for the two runs",
        ),
    ],
)
def test_what_cannot_be_captured_is_one_line(arguments, message, script, capture):
    """An error says what was expected and found, and leaves with code 1."""
    script("print('ran')")

    result = capture(*arguments)

    assert result.returncode == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_unusable_folder_is_found_before_the_script_runs(script, capture):
    """No training is lost to a folder that cannot be written to."""
    result = capture("--out", "train.py/x", script("print('ran')"))

    assert result.returncode == 1
    assert result.stdout == ""


def test_a_missing_tensorflow_is_said_before_the_script_runs(script, python):
    """Where there is none the message names the Python to install it for."""
    result = python(
        "-c",
        "import sys; sys.modules['tensorflow'] = None; "
        "from placement_viz.commands import main; sys.exit(main(sys.argv[1:]))",
        "capture",
        script("print('ran')"),
    )

    assert result.returncode == 1
    assert result.stdout == ""
    assert "expected TensorFlow to be installed, found none for" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("step", ["0", "-1", "x"])
def test_a_step_counts_from_one(step, capsys):
    """A step before the first is a usage error."""
    with pytest.raises(SystemExit) as stop:
        main(["capture", "--step", step, "train.py"])

    assert stop.value.code == 2
    assert "expected a number counted from 1" in capsys.readouterr().err


def test_both_stops_at_a_failed_run(script, capture):
    """A run that fails gives its exit code, and its name is said."""
    result = capture("--placement", "both", script("raise SystemExit(7)"))

    assert result.returncode == 7
    assert "placement as-is ended with exit code 7" in last_line(result)
