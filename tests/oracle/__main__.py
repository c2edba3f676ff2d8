"""``python -m tests.oracle``: score the engine against TensorFlow itself."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import time
from collections.abc import Iterator

from rich.console import Console

from tests.oracle.samples import Sample, load_samples, save_sample
from tests.oracle.scoring import INPUTS, LIMITS, add_scores, score
from tests.oracle.tables import print_answers, print_scores, scores_as_json


def main(arguments: list[str]) -> int:
    """Score and print; return 1 when a limit is missed, 2 when there is no model."""
    options = _options(arguments)
    console = Console(width=None if sys.stdout.isatty() else 200)
    scores = {
        sample.name: {given: score(sample, given) for given in INPUTS}
        for sample in _samples(options, console)
    }
    if not scores:
        console.print("no such model")
        return 2
    if options.verbose:
        print_answers(scores, console)
    print_scores(scores, console)
    if options.json:
        options.json.write_text(json.dumps(scores_as_json(scores), indent=1) + "\n")
    totals = {
        given: add_scores(of_model[given] for of_model in scores.values())
        for given in LIMITS
    }
    return int(not all(totals[given].keeps(LIMITS[given]) for given in LIMITS))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--model", action="append", default=[], help="only this one")
    parser.add_argument(
        "--unseen",
        action="store_true",
        help="score the models that no rule was made after, instead of the others",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="list every answer that is not right"
    )
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument(
        "--save", type=pathlib.Path, metavar="FOLDER", help="keep all samples there"
    )
    parser.add_argument(
        "--from",
        type=pathlib.Path,
        metavar="FOLDER",
        dest="folder",
        help="score samples that were kept, without TensorFlow",
    )
    return parser.parse_args(arguments)


def _samples(options: argparse.Namespace, console: Console) -> Iterator[Sample]:
    names = frozenset(options.model)
    if options.folder:
        yield from load_samples(options.folder, names)
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    from tests.oracle.models import MODELS, UNSEEN
    from tests.oracle.recording import record_sample

    tf.get_logger().setLevel("ERROR")
    for name, model in (UNSEEN if options.unseen else MODELS).items():
        if names and name not in names:
            continue
        start = time.perf_counter()
        sample = record_sample(name, model)
        console.print(f"{name}: {time.perf_counter() - start:.1f} s", style="dim")
        if options.save:
            save_sample(sample, options.save)
        yield sample


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
