"""Which op is in which tower."""

from __future__ import annotations

import polars as pl

from placement_viz.analysis.step.flow import Flow
from placement_viz.analysis.step.parallel import IS_PARAMETER
from placement_viz.analysis.step.roles import Role
from placement_viz.analysis.step.tower_scopes import TowerScopes
from placement_viz.model import RowKind

__all__ = ["MEMBERS_SCHEMA", "find_members"]

#: Columns of :func:`find_members`, one row an op, in the order of ``Trace.ops``.
#:
#: ``op``        position in ``Trace.ops``; of a kernel too, whose op is in a tower
#: ``tower``     number of the tower, from 0
#: ``relative``  what the op is called in every tower
MEMBERS_SCHEMA = pl.Schema({"op": pl.UInt32, "tower": pl.Int32, "relative": pl.String})

_ROLES = (Role.FORWARD, Role.INPUT, Role.GRADIENT)


def find_members(flow: Flow, scopes: TowerScopes | None) -> pl.DataFrame:
    """Return the ops of each tower, none in two.

    A gradient op is in the tower of its forward op; where that is not known or in no
    tower, in the one whose scope it has. Variables, what reads them, and all that
    serves to change them are in none, and so is what takes the gradients of several.

    Returns:
        A table with the columns of :data:`MEMBERS_SCHEMA`.
    """
    if scopes is None:
        return pl.DataFrame(schema=MEMBERS_SCHEMA)
    pairs = flow.colocation.gradients.select("op", "forward_op")
    ran = (
        flow.executed.filter(pl.col("role").is_in(_ROLES) & ~IS_PARAMETER)
        .select("op", "name", "op_type")
        .join(pairs, on="op", how="left", maintain_order="left")
    )
    own = scopes.read(ran["name"])
    forward = scopes.read(ran["forward_op"]).rename({"relative": "forward"})
    read = pl.concat(
        [ran, own, forward.rename({"tower": "forward_tower"})], how="horizontal"
    )
    members = _without_sums(flow, _placed(read, scopes).drop_nulls("tower"))
    kernels = flow.ops.filter(pl.col("row_kind") == RowKind.STREAM).select("op", "name")
    started = kernels.join(members.drop("op").unique("name"), on="name")
    return (
        pl.concat([members, started], how="diagonal")
        .sort("op")
        .select(MEMBERS_SCHEMA.names())
        .cast(MEMBERS_SCHEMA)
    )


def _placed(read: pl.DataFrame, scopes: TowerScopes) -> pl.DataFrame:
    """Return the tower of each op and what it is called in every tower.

    ``is_by_name`` tells of a gradient op that its forward op says nothing.
    """
    is_told = pl.col("relative") != pl.col("name")
    if scopes.bare:
        is_told |= pl.col("forward_tower") == 0
    is_gradient = pl.col("forward").is_not_null()
    # Gradients of the second tower may be in the second scope of their kind.
    numbered = r"(^|/)gradients_\d+/"
    relative = pl.col("relative").str.replace_all(numbered, "${1}gradients/")
    has_number = pl.col("relative").str.contains("gradients_", literal=True)
    return read.select(
        "op",
        "name",
        tower=pl.coalesce("forward_tower", "tower"),
        relative=pl.when(is_gradient & ~is_told)
        .then(pl.format("{}: {}", "forward", "op_type"))
        .when(has_number)
        .then(relative)
        .otherwise("relative"),
        is_by_name=is_gradient & pl.col("forward_tower").is_null(),
    )


def _without_sums(flow: Flow, members: pl.DataFrame) -> pl.DataFrame:
    """Return ``members`` without those that only seem to be in a tower by their scope.

    A program that sums the gradients of all towers in the scope of the last is meant.
    """
    doubtful = members.filter("is_by_name")
    if doubtful.is_empty():
        return members
    tower = members.select("op", "tower")
    sums = (
        flow.edges.filter(~pl.col("is_control"))
        .join(doubtful.select(consumer="op"), on="consumer", how="semi")
        .join(tower, left_on="producer", right_on="op")
        .group_by("consumer")
        .agg(pl.col("tower").n_unique())
        .filter(pl.col("tower") > 1)
    )
    return members.join(
        sums, left_on="op", right_on="consumer", how="anti", maintain_order="left"
    )
