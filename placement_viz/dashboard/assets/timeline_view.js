// A timeline under the hands of a person: one run, or two on the same axis.
//
// Plotly draws the frame (devices, bands); its figure says in `meta` where the lines are.
// The ops are drawn over it on a canvas, at once from what is there, and again when the
// server has sent what the new window shows.

(function () {
  "use strict";

  const { Source, draw, hands, layout, makeLook, meters, formatLength, pair } = window.placementTimeline;
  const SMALLEST_US = 2;
  const TIP_DELAY_MS = 60;

  class Timeline {
    constructor(id) {
      this.id = id;
      this.graph = this.root.closest(".graph");
      this.canvas = this.graph.querySelector("canvas.ops");
      this.map = this.graph.parentElement.querySelector("canvas.map");
      this.cursor = this.graph.querySelector(".cursor");
      this.tip = this.graph.querySelector(".tip");
      this.status = this.graph.parentElement.querySelector(".timeline-status");
      this.sources = [];
      this.hidden = [];
      this.window = null;
      this.chosen = [];
      this.links = null;
      this.span = null;
      this.found = null;
      this.onWindow = this.onChoose = this.onFold = () => {};
      this.folded = new Set();
      this.rendered = 0;
      this.listen();
    }

    // Dash may put another element in its place.
    get root() {
      return document.getElementById(this.id);
    }

    get plot() {
      return this.root.querySelector(".js-plotly-plot");
    }

    // ---- what is shown ----------------------------------------------------

    // Called when Plotly has drawn a frame: another run, or another colour scheme.
    frame(runs, window, op) {
      const plot = this.plot;
      if (!plot || !plot._fullLayout || !plot.layout.meta) return;
      const meta = plot.layout.meta;
      const isOther = runs.join("\n") !== this.sources.map((s) => s.run).join("\n");
      // The same run has other colours once it is judged.
      const isNew = isOther || this.meta.is_judged !== meta.is_judged;
      this.meta = meta;
      this.whole = meta.whole;
      if (isNew) {
        this.sources = runs.map((run) => new Source(run, () => this.redraw()));
        this.chosen = [];
        this.links = this.span = this.found = this.mapData = this.counter = null;
        this.drawMap();
      }
      if (isOther || !this.window) this.window = (window || this.whole).slice();
      this.measure();
      this.look = makeLook(meta, this.canvas.getContext("2d"));
      this.refresh();
      if (isNew && Number.isInteger(op)) this.choose(op);
    }

    measure() {
      const layout = this.plot._fullLayout;
      const { xaxis, yaxis } = layout;
      const box = this.graph.getBoundingClientRect();
      const place = this.plot.getBoundingClientRect();
      const dx = place.left - box.left;
      const dy = place.top - box.top;
      this.area = {
        left: dx + xaxis._offset,
        top: dy + yaxis._offset,
        width: Math.max(xaxis._length, 1),
        height: yaxis._length,
      };
      const at = (y) => dy + yaxis._offset + yaxis.d2p(y);
      this.lineHeight = Math.abs(yaxis.d2p(1) - yaxis.d2p(0));
      this.tops = this.meta.sources.map((ys) => ys.map(at));
      const ratio = window.devicePixelRatio || 1;
      const size = [box.width, dy + layout.height];
      this.canvas.style.width = size[0] + "px";
      this.canvas.style.height = size[1] + "px";
      this.canvas.width = Math.round(size[0] * ratio);
      this.canvas.height = Math.round(size[1] * ratio);
      this.canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }

    refresh() {
      if (!this.look) return;
      const pixels = Math.round(this.area.width);
      this.sources.forEach((source) => source.want(this.window, pixels, this.hidden));
      this.wantCounter();
      this.redraw();
    }

    redraw() {
      if (this.isDue) return;
      this.isDue = true;
      window.requestAnimationFrame(() => {
        this.isDue = false;
        this.paint();
      });
    }

    x(us) {
      const { left, width } = this.area;
      return left + ((us - this.window[0]) / (this.window[1] - this.window[0])) * width;
    }

    us(x) {
      const { left, width } = this.area;
      return this.window[0] + ((x - left) / width) * (this.window[1] - this.window[0]);
    }

    paint() {
      if (!this.look || !this.area) return;
      const { look, area } = this;
      const { context } = look;
      context.clearRect(0, 0, this.canvas.width, this.canvas.height);
      draw.times(look, area, this.window, this.origin());
      this.sources.forEach((source, i) => {
        if (!source.data) return;
        const offset = this.x(source.window[0]);
        const scale = this.x(source.window[1]) - offset;
        const place = { left: area.left, width: area.width, offset, scale };
        draw.ops(look, source, place, this.tops[i], this.lineHeight);
      });
      this.paintCounter();
      this.paintMarks();
      this.paintMap();
      this.tell();
    }

    paintMarks() {
      const { look, area } = this;
      const { context } = look;
      context.save();
      context.beginPath();
      context.rect(area.left - 3, area.top - 3, area.width + 6, area.height + 6);
      context.clip();
      (this.links || []).forEach(([from, to, isMove]) => {
        const [a, b] = [this.at(from), this.at(to)];
        draw.arrow(look, isMove ? a.x0 : a.x1, a.y, b.x0, b.y, look.text);
      });
      this.chosen.forEach((mark) => {
        const { x0, x1, y } = this.at(mark);
        draw.box(look, x0, x1, y, this.lineHeight);
      });
      if (this.span) {
        const [x0, x1] = [this.x(this.span.from), this.x(this.span.to)];
        const text = formatLength(this.span.to - this.span.from);
        draw.span(look, area, x0, x1, this.span.top, this.span.bottom, text);
      }
      context.restore();
    }

    // Where an op is drawn: `mark` is what the server tells of it, and its source.
    at({ source, told }) {
      const y = this.tops[source][told.line];
      const start = told.start_us + this.sources[source].shift;
      return { x0: this.x(start), x1: this.x(start + told.duration_us), y };
    }

    tell() {
      const isExact = this.sources.every(
        (s) => s.data && s.window[0] === this.window[0] && s.window[1] === this.window[1]
      );
      if (!isExact) return;
      this.rendered += 1;
      const sum = (key) => this.sources.reduce((n, s) => n + s.data[key], 0);
      Object.assign(this.root.dataset, {
        startUs: this.window[0],
        endUs: this.window[1],
        opsShown: sum("shown"),
        opsMerged: sum("merged"),
        rendered: this.rendered,
      });
      const merged = sum("merged");
      const seen = sum("shown") + merged;
      const isWhole = this.window[0] <= this.whole[0] && this.window[1] >= this.whole[1];
      this.say(
        `${formatLength(this.window[1] - this.window[0])}: ${seen.toLocaleString("en")} ops` +
          (merged ? `, ${merged.toLocaleString("en")} of them in blocks` : "") +
          (isWhole ? "" : "; 0 shows all")
      );
    }

    say(text) {
      if (this.status && !this.isSaying && this.status.textContent !== text) {
        this.status.textContent = text;
      }
    }

    // ---- the whole run, small ---------------------------------------------

    async drawMap() {
      if (!this.map || !this.sources.length) return;
      this.mapData = null;
      const source = new Source(this.sources[0].run, () => {
        this.mapData = source;
        this.paintMap();
      });
      source.want(this.whole, 600, []);
    }

    paintMap() {
      if (!this.map || !this.mapData || !this.meta) return;
      const ratio = window.devicePixelRatio || 1;
      const [width, height] = [this.map.clientWidth, this.map.clientHeight];
      if (!width) return;
      this.map.width = Math.round(width * ratio);
      this.map.height = Math.round(height * ratio);
      const context = this.map.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const lines = this.meta.sources[0].length;
      const look = Object.assign({}, this.look, { context, patterns: this.look.fills });
      const tops = this.meta.sources[0].map((_, i) => ((i + 0.5) / lines) * height);
      const place = { left: 0, width, offset: 0, scale: width };
      const flat = Object.assign({}, this.mapData, { data: Object.assign({}, this.mapData.data, { labels: {} }) });
      draw.ops(look, flat, place, tops, height / lines / 0.8);
      const all = this.whole[1] - this.whole[0];
      const x0 = ((this.window[0] - this.whole[0]) / all) * width;
      const x1 = ((this.window[1] - this.whole[0]) / all) * width;
      context.fillStyle = this.look.surface;
      context.globalAlpha = 0.66;
      context.fillRect(0, 0, x0, height);
      context.fillRect(x1, 0, width - x1, height);
      context.globalAlpha = 1;
      context.strokeStyle = this.look.text;
      context.lineWidth = 1.5;
      context.strokeRect(x0 + 0.75, 0.75, Math.max(x1 - x0 - 1.5, 2), height - 1.5);
    }

    // ---- moving -----------------------------------------------------------

    moveTo(range) {
      if (!this.whole) return;
      const [first, last] = this.whole;
      let width = Math.min(Math.max(range[1] - range[0], SMALLEST_US), last - first);
      let from = range[0] + (range[1] - range[0] - width) / 2;
      from = Math.min(Math.max(from, first), last - width);
      const next = [from, from + width];
      if (next[0] === this.window[0] && next[1] === this.window[1]) return;
      this.window = next;
      this.refresh();
      window.clearTimeout(this.later);
      // An address that changed with each frame would fill the history.
      this.later = window.setTimeout(() => this.onWindow(this.isWhole() ? null : next), 150);
    }

    isWhole() {
      return this.window[0] <= this.whole[0] && this.window[1] >= this.whole[1];
    }

    zoom(factor, us) {
      const middle = us === undefined ? (this.window[0] + this.window[1]) / 2 : us;
      this.moveTo(this.window.map((edge) => middle + (edge - middle) * factor));
    }

    pan(share) {
      const by = (this.window[1] - this.window[0]) * share;
      this.moveTo(this.window.map((edge) => edge + by));
    }

    fit() {
      this.moveTo(this.whole);
    }

    // Shows an op, and brings it into the window.
    reveal(told, shift) {
      const from = told.start_us + (shift || 0);
      const to = from + told.duration_us;
      if (from >= this.window[0] && to <= this.window[1]) {
        this.redraw();
        return;
      }
      const half = Math.max((this.window[1] - this.window[0]) / 2, (to - from) * 0.75);
      this.moveTo([(from + to) / 2 - half, (from + to) / 2 + half]);
      this.redraw();
    }

    // ---- choosing ---------------------------------------------------------

    async choose(op, index) {
      const source = this.sources[index || 0];
      this.links = null;
      if (op === null || !source) {
        this.chosen = [];
        this.redraw();
        return;
      }
      const told = await source.op(op);
      if (!told || told.error) return;
      this.chosen = [{ source: index || 0, told }];
      this.reveal(told, source.shift);
      if (this.sources.length === 2) await this.chooseTwin(index || 0, told);
    }

    // The segment under a point, the misplaced first.
    hit(x, y) {
      const { area } = this;
      if (!area || x < area.left || x > area.left + area.width) return null;
      const last = this.meta.classes.length - 1;
      let best = null;
      this.sources.forEach((source, index) => {
        if (!source.data) return;
        const near = (top) => Math.abs(top - y) <= this.lineHeight / 2;
        const line = this.tops[index].findIndex(near);
        if (line < 0) return;
        const { op, kind, begin, end } = source.data;
        const offset = this.x(source.window[0]);
        const scale = this.x(source.window[1]) - offset;
        for (let i = 0; i < op.length; i += 1) {
          if (kind[i] >> 8 !== line) continue;
          const x0 = offset + begin[i] * scale;
          const x1 = offset + end[i] * scale;
          const gap = Math.max(x0 - x, x - Math.max(x1, x0 + 1), 0);
          if (gap > 2) continue;
          const rank = gap * 10 - ((kind[i] & 255) === last ? 5 : 0);
          if (!best || rank < best.rank) {
            const width = source.window[1] - source.window[0];
            const from = source.window[0] + begin[i] * width;
            const to = source.window[0] + end[i] * width;
            best = { rank, index, line, op: op[i], from, to };
          }
        }
      });
      return best;
    }

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
    }

    async describe(under) {
      const source = this.sources[under.index];
      if (under.op >= 0) {
        const told = await source.op(under.op);
        return told && !told.error ? [told.name, ...told.told] : null;
      }
      const query = { from: under.from, to: under.to, first: under.line, last: under.line };
      const sums = await source.ask("sums", this.shifted(source, query));
      if (!sums || sums.error) return null;
      const types = sums.by_type.slice(0, 3).map(([type, n]) => `${n} ${type}`);
      return [
        `${sums.title} in ${formatLength(under.to - under.from)}`,
        ...sums.by_class.map(([kind, n, us]) => `${n} ${kind}: ${formatLength(us)}`),
        types.join(", "),
        "click to zoom in",
      ];
    }

    // In the page, for the frame may be lower than what there is to tell.
    placeTip(x, y) {
      const box = this.canvas.getBoundingClientRect();
      const { offsetWidth: wide, offsetHeight: tall } = this.tip;
      const [left, top] = [box.left + x + 14, box.top + y + 16];
      const fits = top + tall < window.innerHeight;
      this.tip.style.left = Math.max(4, Math.min(left, window.innerWidth - wide - 4)) + "px";
      this.tip.style.top = (fits ? top : box.top + y - tall - 10) + "px";
    }

    leave() {
      this.cursor.hidden = true;
      this.hovered = null;
      this.tip.hidden = true;
    }

    click(x, y) {
      if (this.area && x < this.area.left) {
        this.fold(this.deviceAt(y));
        return;
      }
      const under = this.hit(x, y);
      if (!under) return;
      if (under.op < 0) {
        const air = Math.max(under.to - under.from, SMALLEST_US) * 0.1;
        this.moveTo([under.from - air, under.to + air]);
        return;
      }
      this.choose(under.op, under.index);
      this.onChoose(under.op, under.index);
    }

    // ---- steps from op to op ----------------------------------------------

    async beside(step) {
      const mark = this.chosen[0];
      const index = mark ? mark.source : 0;
      const at = (this.window[0] + this.window[1]) / 2 - this.sources[index].shift;
      const query = { step, at, op: mark ? mark.told.op : -1 };
      this.go(await this.sources[index].ask("beside", query), index, "no misplaced op that way");
    }

    async forward() {
      const mark = this.chosen[0];
      if (!mark) return this.note("choose an op first");
      const told = await this.sources[mark.source].ask("forward", { op: mark.told.op });
      this.go(told, mark.source, "its forward op did not run in this step");
    }

    go(told, index, otherwise) {
      if (!told || told.error) {
        this.note(otherwise);
        return;
      }
      this.choose(told.op, index);
      this.onChoose(told.op, index);
    }

    async showLinks() {
      const mark = this.chosen[0];
      if (!mark) return this.note("choose an op first");
      if (this.links) {
        this.links = null;
        this.redraw();
        return;
      }
      const ends = await this.sources[mark.source].ask("links", { op: mark.told.op });
      if (!ends || ends.error) return;
      const as = (told) => ({ source: mark.source, told });
      this.links = [
        ...ends.inputs.map((told) => [as(told), mark]),
        ...ends.consumers.map((told) => [mark, as(told)]),
      ];
      this.note(`${ends.inputs.length} inputs, ${ends.consumers.length} consumers`);
      this.redraw();
    }

    // ---- searching --------------------------------------------------------

    async search(text) {
      if (!text) {
        this.found = null;
        return;
      }
      const found = await this.sources[0].ask("search", { for: text });
      if (!found) return;
      if (found.error) return this.note(found.error);
      this.found = { ops: found.ops, total: found.total, at: -1 };
      if (!found.total) return this.note("nothing found");
      this.stepFound(1);
    }

    stepFound(step) {
      if (!this.found || !this.found.ops.length) return this.note("search with / first");
      const { ops, total } = this.found;
      this.found.at = (this.found.at + step + ops.length) % ops.length;
      const op = ops[this.found.at];
      this.note(`${this.found.at + 1} of ${total.toLocaleString("en")} found`);
      this.choose(op, 0);
      this.onChoose(op, 0);
    }

    // News stays for a while, whatever is drawn meanwhile.
    note(text) {
      if (!this.status) return;
      this.status.textContent = text;
      this.isSaying = true;
      window.clearTimeout(this.saying);
      this.saying = window.setTimeout(() => (this.isSaying = false), 2500);
    }

    // ---- a part of the picture --------------------------------------------

    async measureSpan() {
      const span = this.span;
      if (!span) return;
      const index = this.tops.findIndex((tops) => tops.some((y) => y >= span.top && y <= span.bottom));
      if (index < 0) return;
      const lines = this.tops[index]
        .map((y, line) => ({ y, line }))
        .filter(({ y }) => y + this.lineHeight / 2 >= span.top && y - this.lineHeight / 2 <= span.bottom)
        .map(({ line }) => line);
      const query = { from: span.from, to: span.to, first: lines[0], last: lines[lines.length - 1] };
      const source = this.sources[index];
      const sums = await source.ask("sums", this.shifted(source, query));
      if (!sums || sums.error || span !== this.span) return;
      const parts = sums.by_class.map(([kind, n, us]) => `${n} ${kind} ${formatLength(us)}`);
      const types = sums.by_type.slice(0, 5).map(([type, n, us]) => `${type} ×${n} ${formatLength(us)}`);
      this.note(
        `${formatLength(span.to - span.from)}: ${sums.title}, ${formatLength(sums.total_us)} of durations` +
          ` · ${parts.join(", ")} · ${types.join(", ")}`
      );
    }

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
    }

    clear() {
      this.span = this.links = null;
      this.redraw();
    }
  }

  Object.assign(Timeline.prototype, hands, layout, meters, pair);

  // One for each place that holds a timeline, made when it is first asked for.
  const made = {};
  window.placementTimeline.of = (id) => {
    if (!made[id] && document.getElementById(id)) made[id] = new Timeline(id);
    return made[id];
  };
})();
