"""A timeline with something of everything, for who reads it in more than one way."""

from tests.builders import event

ROWS = ("CPU:0", "GPU:0", "GPU:1")
EVENTS = [
    event(
        f"op{i}",
        op=f"Type{i % 7}",
        pid=1 + i % 3,
        tid=i % 4,
        ts=10_000 - 3 * i,
        dur=i % 50,
        inputs=[f"op{i - 1}", f"^op{i // 2}"][: i % 3],
    )
    for i in range(400)
]
OTHERS = [
    {"ph": "s", "cat": "DataFlow", "name": "a", "pid": 1, "tid": 0, "ts": 1, "id": 1},
    {"ph": "C", "name": "bfc", "pid": 9, "ts": 1, "args": {"bfc": 3}},
    event("late", ts="later"),
    event("float", ts=1.5, dur=2.5, pid="text"),
]


def told(run):
    """Return all that a run says."""
    trace = run.trace
    nodes = run.graph.nodes if run.graph else None
    return trace.ops.rows(), dict(trace.skipped), trace.notices, trace.origin_us, nodes
