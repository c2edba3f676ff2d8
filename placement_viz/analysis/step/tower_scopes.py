"""Which scopes of a program are towers: copies of a model that do not feed each other.

Towers are known by what is in them, not by what they are called: sibling scopes whose
names differ by a number and whose contents are alike. Layers are alike as well, but a
layer feeds the next.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import polars as pl

from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.parallel import IS_PARAMETER, are_parallel
from placement_viz.analysis.step.roles import Role
from placement_viz.model import RowKind

__all__ = ["TowerScopes", "find_scopes"]

#: Towers have this share of their ops in common, at least.
_LEAST_ALIKE = 0.8
#: Towers are most of a model: heads of attention and groups of a convolution, which
#: are alike and do not feed each other either, are not.
_LEAST_SHARE = 0.5
_NUMBERED = r"^(.*?)_?(\d{1,9})(?:_\d+)*$"
#: Number of a member without a number, as in ``tower`` beside ``tower_1``.
_NO_NUMBER = -1
# No model is nested deeper than this above its towers.
_MOST_DEPTH = 8


@dataclasses.dataclass(frozen=True, eq=False)
class TowerScopes:
    """The names of the towers of a program.

    Attributes:
        labels: Text of a scope to the number of its tower, counted from 0. Several
            are of one tower where a program entered its scope again.
        bare: Names of the ops of tower 0 where this has no scope of its own, as in
            ``MirroredStrategy``; else empty.
    """

    labels: dict[str, int]
    bare: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the scope of each tower; empty for one that has none."""
        found = {0: ""} if self.bare else {}
        for label, tower in sorted(self.labels.items(), key=lambda item: len(item[0])):
            found.setdefault(tower, label)
        return tuple(found[tower] for tower in sorted(found))

    def read(self, names: pl.Series) -> pl.DataFrame:
        """Return what names say.

        Returns:
            ``tower``, null for what is in none; ``relative``, the name without the
            scope of its tower. In the order of ``names``.
        """
        # Between slashes, so that all of a scope's name is meant.
        scopes = {f"/{label}/": tower for label, tower in self.labels.items()}
        path = pl.concat_str(pl.lit("/"), "name")
        in_scope = (
            path.str.extract_many(list(scopes))
            .list.first()
            .replace_strict(scopes, default=None, return_dtype=pl.Int32)
        )
        if self.bare:
            is_bare = pl.col("name").is_in(list(self.bare))
            bare = pl.when(is_bare).then(pl.lit(0, pl.Int32))
            in_scope = pl.coalesce(in_scope, bare)
        inner = path.str.replace_many(dict.fromkeys(scopes, "/")).str.strip_prefix("/")
        return names.to_frame("name").select(tower=in_scope, relative=inner)


def find_scopes(flow: Flow) -> TowerScopes | None:
    """Return the scopes of the towers, the outermost if they are nested.

    Returns:
        None when the step has no towers, or none can be told.
    """
    forward = _forward_nodes(flow)
    computing = forward.filter(~pl.col("is_constant"))
    parts = _numbered_scopes(forward)
    for depth, stem in _candidates(parts, computing.height):
        members = parts.filter(pl.col("depth") == depth, pl.col("stem") == stem)
        alike = _alike(_with_relative(members, depth), computing)
        if alike is None or alike.height < _LEAST_SHARE * computing.height:
            continue
        towers = _towers_of_ops(flow, alike)
        if _is_a_model(flow, towers) and are_parallel(flow, towers):
            return _as_scopes(flow, alike, members)
    return None


def _forward_nodes(flow: Flow) -> pl.DataFrame:
    """Return the nodes that are part of a model, without its variables.

    Returns:
        ``name``, ``op_type`` and ``is_constant``; each name once.
    """
    is_model = pl.col("role").is_in([Role.FORWARD, Role.INPUT])
    return (
        flow.ops.lazy()
        .filter(pl.col("row_kind") == RowKind.EXECUTOR, is_model & ~IS_PARAMETER)
        .select(
            "name",
            "op_type",
            # Input is a program's own or a session's, and constants are merged.
            is_constant=(pl.col("op_type") == "Const") | (pl.col("role") == Role.INPUT),
        )
        .unique("name", keep="first", maintain_order=True)
        .collect()
    )


def _numbered_scopes(forward: pl.DataFrame) -> pl.DataFrame:
    """Return the scopes of each node that may be one of a row.

    Returns:
        The columns of ``forward``; ``depth`` of the scope, from 0; its text ``label``,
        and this taken apart into ``stem`` and ``number``.
    """
    scopes = pl.col("name").str.split("/").list.head(_MOST_DEPTH + 1)
    by_scope = (
        forward.with_columns(label=scopes.list.slice(0, scopes.list.len() - 1))
        .with_columns(depth=pl.int_ranges(pl.col("label").list.len()))
        .explode("label", "depth")
        .drop_nulls("label")
    )
    label = pl.col("label")
    labels = (
        by_scope.select(label.unique())
        .with_columns(groups=label.str.extract_groups(_NUMBERED))
        .select(
            label,
            stem=pl.coalesce(pl.col("groups").struct.field("1"), label),
            number=pl.col("groups")
            .struct.field("2")
            .cast(pl.Int64)
            .fill_null(_NO_NUMBER),
        )
    )
    return by_scope.join(labels, on="label", maintain_order="left")


def _candidates(parts: pl.DataFrame, n_nodes: int) -> list[tuple[int, str]]:
    """Return depth and stem of what may be towers, the outermost first."""
    counted = (
        parts.filter(~pl.col("is_constant"))
        .group_by("depth", "stem", maintain_order=True)
        .agg(nodes=pl.len(), last=pl.col("number").max())
        # One of two may have no scope of its own.
        .filter(pl.col("nodes") * 2.5 >= _LEAST_SHARE * n_nodes, pl.col("last") > -1)
        .sort("depth", "nodes", "stem", descending=[False, True, False])
    )
    return list(counted.select("depth", "stem").iter_rows())


def _with_relative(members: pl.DataFrame, depth: int) -> pl.DataFrame:
    """Return the nodes of a row of scopes with their name in these."""
    scope = rf"^((?:[^/]*/){{{depth}}})[^/]*/"
    return members.filter(~pl.col("is_constant")).select(
        "name", "op_type", "number", relative=pl.col("name").str.replace(scope, "$1")
    )


def _alike(members: pl.DataFrame, computing: pl.DataFrame) -> pl.DataFrame | None:
    """Return the nodes of those scopes whose contents are alike.

    Returns:
        ``name``, ``number`` and ``relative``; None when no two are.
    """
    sizes = (
        members.group_by("number").len().sort("len", "number", descending=[True, False])
    )
    pattern = members.filter(pl.col("number") == sizes["number"][0])
    if (
        not members["number"].is_in([_NO_NUMBER, 0]).any()
        and members["number"].min() == 1
    ):
        bare = computing.join(members, on="name", how="anti").join(
            pattern.select("relative"), left_on="name", right_on="relative", how="semi"
        )
        members = members.vstack(
            bare.select(
                "name",
                "op_type",
                number=pl.lit(_NO_NUMBER, pl.Int64),
                relative="name",
            )
        )
    model = pattern.select("relative", model_type="op_type")
    own, other = pl.col("op_type"), pl.col("model_type")
    # An optimiser's own op types, such as _FusedMatMul, begin so.
    is_same = (own == other) | own.str.starts_with("_") | other.str.starts_with("_")
    shared = (
        members.join(model, on="relative")
        .group_by("number")
        .agg(shared=is_same.sum().cast(pl.Int64))
    )
    n_all = pl.len() + pattern.height - pl.col("shared").first()
    kept = (
        members.join(shared, on="number")
        .group_by("number")
        .agg(alike=pl.col("shared").first() / n_all)
        .filter(pl.col("alike") >= _LEAST_ALIKE)
    )
    if kept.height < 2:
        return None
    return members.join(kept, on="number", how="semi", maintain_order="left")


def _towers_of_ops(flow: Flow, alike: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the number of the tower of each op of the flow; -1 for none."""
    towers = alike.select(
        "name", tower=pl.col("number").rank("dense").cast(pl.Int64) - 1
    )
    ops = flow.ops.select("name", "row_kind").join(
        towers.unique("name"), on="name", how="left", maintain_order="left"
    )
    return ops.select(
        pl.when(pl.col("row_kind") == RowKind.EXECUTOR).then("tower").fill_null(-1)
    )["tower"].to_numpy()


def _is_a_model(flow: Flow, towers: npt.NDArray[np.int64]) -> bool:
    """Return whether what is in ``towers`` takes a variable or has a gradient.

    Two inputs made alike are no towers.
    """
    in_tower = flow.ops.select("name", is_parameter=IS_PARAMETER)
    names = in_tower["name"].filter(pl.Series(towers >= 0))
    if flow.colocation.gradients["forward_op"].is_in(names.implode()).any():
        return True
    edges = flow.edges
    takes = in_tower["is_parameter"].gather(edges["producer"]).to_numpy()
    return bool((takes & (towers[edges["consumer"].to_numpy()] >= 0)).any())


def _as_scopes(flow: Flow, alike: pl.DataFrame, members: pl.DataFrame) -> TowerScopes:
    """Return the scopes whose nodes are ``alike``."""
    order = alike["number"].unique().sort().to_list()
    labels = members.select("label", "number").unique()
    by_label = {
        label: order.index(number)
        for label, number in labels.iter_rows()
        if number in order
    }
    if len(set(by_label.values())) == len(order):
        return TowerScopes(by_label)
    # Gradients tell of forward ops that were fused and did not run by themselves.
    known = pl.concat([flow.ops["name"], flow.colocation.gradients["forward_op"]])
    inside = TowerScopes(by_label).read(known.drop_nulls().unique())
    relative = inside.filter(pl.col("tower").is_not_null())["relative"]
    return TowerScopes(by_label, frozenset(relative))
