import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import placement_viz
from placement_viz import errors

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(placement_viz.__path__, "placement_viz.")
    if not module.name.endswith("__main__")
)


def loaded_after(statement):
    """Return the packages that a fresh Python has loaded after ``statement``."""
    program = f"import sys; {statement}; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    return {name.split(".")[0] for name in ended.stdout.split()}


def test_the_package_is_light():
    """Importing it loads neither TensorFlow nor Dash nor plotly."""
    assert not loaded_after("import placement_viz") & {"tensorflow", "dash", "plotly"}


@pytest.mark.parametrize("statement", ["import app", "import placement_viz.capture"])
def test_tensorflow_waits_until_it_is_needed(statement):
    """Neither looking at a trace nor preparing a capture loads TensorFlow."""
    assert "tensorflow" not in loaded_after(statement)


@pytest.mark.parametrize("name", MODULES)
def test_public_names_exist(name):
    """``__all__`` names what is there, each once; the linter keeps it in order."""
    module = importlib.import_module(name)
    public = getattr(module, "__all__", [])

    assert len(set(public)) == len(public)
    assert all(hasattr(module, each) for each in public)


@pytest.mark.parametrize("name", MODULES)
def test_public_things_are_documented(name):
    """Every module, and everything it exports, says what it means."""
    module = importlib.import_module(name)

    assert module.__doc__
    for each in getattr(module, "__all__", []):
        thing = getattr(module, each)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, f"{name}.{each}"


def test_the_error_tree_is_drawn_as_it_is():
    """The tree in the docstring names every error, under its parent."""
    lines = [line for line in errors.__doc__.splitlines() if "Error" in line]
    drawn = {line.replace("│", " ").split("─")[-1].split()[0] for line in lines}

    assert drawn == set(errors.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_one_room(name):
    """No module grows beyond what a person holds in mind."""
    source = inspect.getsource(importlib.import_module(name))

    assert len(source.splitlines()) <= 300


def test_every_public_name_has_a_home():
    """What is loaded when it is first asked for is what is promised, and no more."""
    import placement_viz

    assert sorted(placement_viz._HOMES) == placement_viz.__all__
    assert all(getattr(placement_viz, name) for name in placement_viz.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = placement_viz.nothing
