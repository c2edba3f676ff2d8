// A timeline under the hands of a person: one run, or two on the same axis.
//
// Plotly draws the frame (devices, bands); its figure says in `meta` where the lines are.
// The ops are drawn over it on a canvas, at once from what is there, and again when the
// server has sent what the new window shows.

(function () {
  "use strict";

  const { Source, draw, finding, hands, layout, makeLook, meters, pair } =
    window.placementTimeline;
  const { formatLength } = window.placementTimeline;
  const SMALLEST_US = 2;
  const REST_MS = 400;

  class Timeline {
    constructor(id) {
      this.id = id;
      this.graph = this.root.closest(".graph");
      this.canvas = this.graph.querySelector("canvas.ops");
      this.map = this.graph.parentElement.querySelector("canvas.map");
      this.cursor = this.graph.querySelector(".cursor");
      this.tip = this.graph.querySelector(".tip");
      this.status = this.graph.parentElement.querySelector(".timeline-status");
      this.voice = this.graph.parentElement.querySelector(".timeline-voice");
      this.sources = [];
      this.hidden = [];
      this.window = null;
      this.chosen = [];
      this.links = null;
      this.span = null;
      this.found = null;
      this.onWindow = this.onChoose = this.onFold = () => {};
      this.folded = new Set();
      this.rendered = this.turn = 0;
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
        this.turn += 1;
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
      // The canvas moves with what is scrolled.
      const dy = place.top - box.top + this.graph.scrollTop;
      this.area = {
        left: dx + xaxis._offset,
        top: dy + yaxis._offset,
        width: Math.max(xaxis._length, 1),
        height: yaxis._length,
      };
      const at = (y) => dy + yaxis._offset + yaxis.d2p(y);
      this.lineHeight = Math.abs(yaxis.d2p(1) - yaxis.d2p(0));
      this.tops = this.meta.sources.map((ys) => ys.map(at));
      if (this.map) {
        this.map.style.marginLeft = this.area.left + "px";
        this.map.style.width = this.area.width + "px";
      }
      const ratio = window.devicePixelRatio || 1;
      const size = [this.graph.clientWidth, dy + layout.height];
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
      const half = this.lineHeight / 2;
      const bands = this.tops.map((tops) => [Math.min(...tops) - half, Math.max(...tops) + half]);
      draw.times(look, area, this.window, this.origin(), bands);
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

    // What is shown, told only when it is news: what was found or measured stays.
    say(text) {
      if (text === this.said) return;
      this.said = text;
      if (!this.isSaying) this.write(text);
    }

    // Screen readers hear it when the hand is at rest, and not at each step of a zoom.
    write(text) {
      if (!this.status) return;
      this.status.textContent = text;
      window.clearTimeout(this.resting);
      this.resting = window.setTimeout(() => (this.voice.textContent = text), REST_MS);
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
      // It tells of what was there before.
      this.leave();
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
    reveal(told, index) {
      const { graph } = this;
      const y = this.tops[index][told.line];
      const isHigh = y - this.lineHeight < graph.scrollTop;
      const isLow = y + this.lineHeight > graph.scrollTop + graph.clientHeight;
      if (isHigh || isLow) graph.scrollTop = y - graph.clientHeight / 2;
      const from = told.start_us + this.sources[index].shift;
      const to = from + told.duration_us;
      if (from >= this.window[0] && to <= this.window[1]) {
        this.redraw();
        return;
      }
      const half = Math.max((this.window[1] - this.window[0]) / 2, (to - from) * 0.75);
      this.moveTo([(from + to) / 2 - half, (from + to) / 2 + half]);
      this.redraw();
    }

    clear() {
      this.span = this.links = null;
      this.redraw();
    }
  }

  Object.assign(Timeline.prototype, finding, hands, layout, meters, pair);

  // One for each place that holds a timeline, made when it is first asked for.
  const made = {};
  window.placementTimeline.of = (id) => {
    if (!made[id] && document.getElementById(id)) made[id] = new Timeline(id);
    return made[id];
  };
})();
