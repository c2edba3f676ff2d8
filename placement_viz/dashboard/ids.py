"""The ids of the page. Browser tests and links rely on them: rename none."""

from __future__ import annotations

from typing import Final

__all__: list[str] = []  # used as ids.NAME

# What a person sees.
BASELINE: Final = "baseline"
CANDIDATE: Final = "candidate"
CAPTION: Final = "timeline-caption"
CLOSE_OP: Final = "close-op"
COMPARE: Final = "compare"
COMPARE_BODY: Final = "compare-body"
COMPARE_DEVICES: Final = "compare-devices"
COMPARE_FACTS: Final = "compare-facts"
COMPARE_HEADLINE: Final = "compare-headline"
COMPARE_NOTICES: Final = "compare-notices"
COMPARE_ONLY: Final = "compare-only"
COMPARE_TIMELINE: Final = "compare-timeline"
DETAILS: Final = "details"
DEVICES: Final = "devices"
FACTS: Final = "facts"
FIXES: Final = "fixes"
GRADIENT_CAPTION: Final = "gradient-caption"
GRADIENT_TABLE: Final = "gradient-table"
HEADLINE: Final = "headline"
LEGEND: Final = "legend"
MAIN: Final = "main"
MESSAGE: Final = "message"
MOVES_CAPTION: Final = "moves-caption"
MOVES_TABLE: Final = "moves-table"
NOTICES: Final = "notices"
RUN_PICKER: Final = "run-picker"
SWAP: Final = "swap"
TIMELINE: Final = "timeline"
UPLOAD: Final = "upload"
UPLOADS: Final = "uploads"
VIEW_PICKER: Final = "view-picker"
WHOLE: Final = "whole-run"

# What the page remembers.
ADDRESS: Final = "address"
COMPARE_WINDOW: Final = "compare-window"
GO: Final = "go"
OP: Final = "op"
OPENED: Final = "opened"
PAIR: Final = "pair"
RUN: Final = "run"
SHOWN: Final = "shown"
THEME: Final = "theme"
VIEW: Final = "view"
WINDOW: Final = "window"
