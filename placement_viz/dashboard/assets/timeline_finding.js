// What is under the pointer, chosen, found or measured in a timeline, whose methods
// these are.

(function () {
  "use strict";

  const { formatLength } = window.placementTimeline;
  const SMALLEST_US = 2;
  const REACH_PX = 3.5;
  const NARROW_PX = 4;
  const TIP_DELAY_MS = 60;
  const NEWS_MS = 2500;
  const LISTED_TYPES = 5;

  // Compares two lists of numbers by the first that differs.
  function isBefore(some, others) {
    const at = some.findIndex((value, i) => value !== others[i]);
    return at >= 0 && some[at] < others[at];
  }

  window.placementTimeline.finding = {
    // ---- choosing ---------------------------------------------------------

    async choose(op, index) {
      const source = this.sources[index || 0];
      const turn = (this.turn += 1);
      this.links = null;
      if (op === null || !source) {
        this.chosen = [];
        this.redraw();
        return;
      }
      const told = await source.op(op);
      // Another may have been chosen since.
      if (!told || told.error || turn !== this.turn) return;
      this.chosen = [{ source: index || 0, told }];
      this.reveal(told, index || 0);
      if (this.sources.length === 2) await this.chooseTwin(index || 0, told);
    },

    // The segment under a point, or close to it where there is none.
    hit(x, y) {
      const { area } = this;
      if (!area || x < area.left || x > area.left + area.width) return null;
      const band = this.bandAt(y);
      const source = band && this.sources[band.run];
      if (!source || !source.data) return null;
      const tops = this.tops[band.run];
      const { op, kind, begin, end } = source.data;
      const offset = this.x(source.window[0]);
      const scale = this.x(source.window[1]) - offset;
      let best = null;
      for (let i = 0; i < op.length; i += 1) {
        const line = kind[i] >> 8;
        if (line < band.first || line > band.last) continue;
        if (Math.abs(tops[line] - y) > this.lineHeight / 2) continue;
        const rank = this.rankOf(x, offset + begin[i] * scale, offset + end[i] * scale, kind[i] & 255);
        if (rank && (!best || isBefore(rank, best.rank))) best = { rank, i, line };
      }
      if (!best) return null;
      const [from, to] = [begin, end].map((edge) => source.window[0] + (edge[best.i] * (source.window[1] - source.window[0])));
      return { index: band.run, line: best.line, op: op[best.i], from, to };
    },

    // What decides between segments, smallest first; null for one that is too far away.
    // A narrow one may be missed by a pixel, for between two wide ones it is hard to hit.
    rankOf(x, x0, x1, kind) {
      const gap = Math.max(x0 - x, x - Math.max(x1, x0 + 1), 0);
      if (gap > REACH_PX) return null;
      const isNarrow = x1 - x0 < NARROW_PX;
      const isMisplaced = kind === this.meta.classes.length - 1;
      const missed = Math.max(gap - (isNarrow ? 1 : 0), 0);
      return [missed - (isMisplaced ? 0.5 : 0), isNarrow ? 0 : 1, gap, x1 - x0];
    },

    async hover(x, y) {
      const under = this.hit(x, y);
      const key = under && `${under.index} ${under.line} ${under.op} ${under.from}`;
      if (key === this.hovered) {
        if (under) this.placeTip(x, y);
        return;
      }
      this.hovered = key;
      this.tip.hidden = true;
      this.canvas.style.cursor = under ? "pointer" : "grab";
      if (!under) return;
      await new Promise((done) => window.setTimeout(done, TIP_DELAY_MS));
      if (this.hovered !== key) return;
      const lines = await this.describe(under);
      if (!lines || this.hovered !== key) return;
      this.tip.replaceChildren(
        ...lines.map((text, i) => {
          const line = document.createElement(i ? "div" : "strong");
          line.textContent = text.length > 160 ? text.slice(0, 90) + "…" + text.slice(-60) : text;
          return line;
        })
      );
      this.tip.hidden = false;
      this.placeTip(x, y);
    },

    async describe(under) {
      const source = this.sources[under.index];
      if (under.op >= 0) {
        const told = await source.op(under.op);
        return told && !told.error ? [told.name, ...told.told] : null;
      }
      // What is told of a part of a window is rounded.
      const air = (source.window[1] - source.window[0]) * 1e-6;
      const query = {
        from: under.from - air,
        to: under.to + air,
        lines: under.line,
        hide: this.hidden.join(","),
        whole: 1,
      };
      const sums = await source.ask("sums", this.shifted(source, query));
      if (!sums || sums.error) return null;
      const types = sums.by_type.slice(0, 3).map(([type, n]) => `${n} ${type}`);
      return [
        `${sums.title} in ${formatLength(under.to - under.from)}`,
        ...sums.by_class.map(([kind, n, us]) => `${n} ${kind}: ${formatLength(us)}`),
        types.join(", "),
        "click to zoom in",
      ];
    },

    // In the page, for the frame may be lower than what there is to tell.
    placeTip(x, y) {
      const box = this.canvas.getBoundingClientRect();
      const { offsetWidth: wide, offsetHeight: tall } = this.tip;
      const [left, top] = [box.left + x + 14, box.top + y + 16];
      const fits = top + tall < window.innerHeight;
      this.tip.style.left = Math.max(4, Math.min(left, window.innerWidth - wide - 4)) + "px";
      this.tip.style.top = (fits ? top : box.top + y - tall - 10) + "px";
    },

    leave() {
      this.cursor.hidden = true;
      this.hovered = null;
      this.tip.hidden = true;
    },

    click(x, y) {
      const under = this.hit(x, y);
      if (!under) return;
      if (under.op < 0) {
        const air = Math.max(under.to - under.from, SMALLEST_US) * 0.1;
        this.moveTo([under.from - air, under.to + air]);
        return;
      }
      this.choose(under.op, under.index);
      this.onChoose(under.op, under.index);
    },

    // ---- steps from op to op ----------------------------------------------

    async beside(step) {
      const mark = this.chosen[0];
      const index = mark ? mark.source : 0;
      const at = (this.window[0] + this.window[1]) / 2 - this.sources[index].shift;
      const query = { step, at, op: mark ? mark.told.op : -1 };
      this.go(await this.sources[index].ask("beside", query), index, "no misplaced op that way");
    },

    async forward() {
      const mark = this.chosen[0];
      if (!mark) return this.note("choose an op first");
      const told = await this.sources[mark.source].ask("forward", { op: mark.told.op });
      this.go(told, mark.source, "its forward op did not run in this step");
    },

    go(told, index, otherwise) {
      if (!told || told.error) {
        this.note(otherwise);
        return;
      }
      this.choose(told.op, index);
      this.onChoose(told.op, index);
    },

    async showLinks() {
      const mark = this.chosen[0];
      if (!mark) return this.note("choose an op first");
      if (this.links) {
        this.links = null;
        this.redraw();
        return;
      }
      const ends = await this.sources[mark.source].ask("links", { op: mark.told.op });
      if (!ends || ends.error || mark !== this.chosen[0]) return;
      const as = (told) => ({ source: mark.source, told });
      this.links = [
        ...ends.inputs.map((told) => [as(told), mark]),
        ...ends.consumers.map((told) => [mark, as(told)]),
      ];
      this.note(`${ends.inputs.length} inputs, ${ends.consumers.length} consumers`);
      this.redraw();
    },

    // News stays for a while, whatever is drawn meanwhile.
    note(text) {
      this.write(text);
      this.isSaying = true;
      window.clearTimeout(this.saying);
      this.saying = window.setTimeout(() => (this.isSaying = false), NEWS_MS);
    },

    // ---- a part of the picture --------------------------------------------

    async measureSpan() {
      const { span } = this;
      if (!span) return;
      const half = this.lineHeight / 2;
      const parts = this.tops.map(async (tops, index) => {
        const lines = [...tops.keys()].filter(
          (line) => tops[line] + half > span.top && tops[line] - half < span.bottom
        );
        if (!lines.length) return "";
        const query = {
          from: span.from,
          to: span.to,
          lines: lines.join(","),
          hide: this.hidden.join(","),
        };
        const source = this.sources[index];
        const sums = await source.ask("sums", this.shifted(source, query));
        if (!sums || sums.error) return "";
        return (this.tops.length > 1 ? ["Before: ", "After: "][index] : "") + this.sumUp(sums);
      });
      const told = (await Promise.all(parts)).filter(Boolean);
      if (span !== this.span) return;
      const length = formatLength(span.to - span.from);
      this.note(`${length}: ${told.join(" — ") || "no line of ops"}`);
    },

    sumUp(sums) {
      const kinds = sums.by_class.map(([kind, n, us]) => `${n} ${kind} ${formatLength(us)}`);
      const types = sums.by_type
        .slice(0, LISTED_TYPES)
        .map(([type, n, us]) => `${type} ×${n} ${formatLength(us)}`);
      const more = sums.n_types - types.length;
      return (
        `${sums.title}, ${formatLength(sums.total_us)} of durations` +
        [kinds, types].map((each) => (each.length ? " · " + each.join(", ") : "")).join("") +
        (more > 0 ? `, and ${more} more type${more > 1 ? "s" : ""}` : "")
      );
    },

    zoomToSpan() {
      const mark = this.chosen[0];
      if (this.span) {
        this.moveTo([this.span.from, this.span.to]);
      } else if (mark) {
        const { start_us: start, duration_us: length } = mark.told;
        const from = start + this.sources[mark.source].shift;
        const air = Math.max(length, SMALLEST_US) * 0.5;
        this.moveTo([from - air, from + length + air]);
      } else {
        this.note("mark a part with Shift and drag, or choose an op");
      }
    },
  };
})();
