"""Small runs for tests: name what matters, the rest has a default."""

from __future__ import annotations

import json
import os
import pathlib

import polars as pl

from placement_viz.model import OPS_SCHEMA, Graph, RowKind, Run, Trace
from placement_viz.schema import GraphNode

ROOT = pathlib.Path(__file__).parent.parent
TRACES = ROOT / "tests" / "traces"
SAMPLES = ROOT / "traces"
CORPUS = ROOT.parent / "shared" / "corpus"

TASK = "/job:localhost/replica:0/task:0"


def environment():
    """Return the environment of a process that is to find the package."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def device(short):
    """Return the full name of ``CPU:1``; a full name stays as it is."""
    return short if short.startswith("/") else f"{TASK}/device:{short}"


def op(name, on="CPU:0", **fields):
    """Return one op that ran, as a row of ``Trace.ops``."""
    return {
        "name": name,
        "op_type": "MatMul",
        "device": device(on),
        "row_kind": RowKind.EXECUTOR,
        "row": device(on),
        "lane": 0,
        "start_us": 0,
        "duration_us": 10,
        "inputs": [],
        "step": 0,
        **fields,
    }


def trace(*ops):
    """Return a trace of ``ops``, in order of start."""
    table = pl.DataFrame(list(ops), schema=OPS_SCHEMA)
    return Trace(ops=table.sort("start_us", maintain_order=True))


def node(name, on="", **fields):
    """Return one node of a graph; ``on`` is the device that is asked for."""
    asked = f"/device:{on}" if on and not on.startswith("/") else on
    return GraphNode(name=name, device=asked, **{"op": "MatMul", **fields})


def graph(*nodes, placed=None):
    """Return a graph of ``nodes``; ``placed`` maps a node to a short device."""
    return Graph(
        nodes={each.name: each for each in nodes},
        placed={name: device(on) for name, on in (placed or {}).items()},
    )


def run(*ops, nodes=None, placed=None):
    """Return a run of ``ops`` and, when there are ``nodes``, their graph."""
    return Run(
        source="test",
        format="test",
        trace=trace(*ops),
        graph=None if nodes is None else graph(*nodes, placed=placed),
    )


def timeline(*events, rows=("CPU:0",), **keys):
    """Return a timeline's bytes; row k of ``rows`` has pid k + 1."""
    labels = [
        {
            "ph": "M",
            "name": "process_name",
            "pid": pid,
            "args": {"name": f"{device(row)} Compute"},
        }
        for pid, row in enumerate(rows, start=1)
    ]
    return json.dumps({"traceEvents": [*labels, *events], **keys}).encode()


def event(name="op", **fields):
    """Return one complete event of a timeline, on the first row."""
    inputs = {f"input{i}": each for i, each in enumerate(fields.pop("inputs", ()))}
    op_type = fields.pop("op", "MatMul")
    return {
        "ph": "X",
        "cat": "Op",
        "name": op_type,
        "pid": 1,
        "tid": 0,
        "ts": 100,
        "dur": 10,
        "args": {"name": name, "op": op_type, **inputs},
        **fields,
    }
