// A timeline under the hands of a person: one run, or two on the same axis.
//
// The server says which devices and lines there are (`meta`, see frames.py). The ops are
// drawn on a canvas, at once from what is there, and again when the server has sent what
// the new window shows.

(function () {
  "use strict";

  const { Source, draw, formatLength, makeLook, placeLines } = window.placementTimeline;
  const { finding, hands, heads, map, meters } = window.placementTimeline;
  const { pair, path, rows, search } = window.placementTimeline;
  const SMALLEST_US = 2;
  const REST_MS = 400;
  const PATIENCE_MS = 3000;
  const RIGHT_PX = 18;
  const LIFTED_PX = 4; // air around pinned devices
  const PINNED_SHARE = 0.6; // of the height: else nothing of the others would be seen

  class Timeline {
    constructor(id) {
      this.graph = document.getElementById(id);
      this.canvas = this.graph.querySelector("canvas.ops");
      this.map = this.graph.parentElement.querySelector("canvas.map");
      this.heads = this.graph.querySelector(".heads");
      this.searchBox = this.graph.parentElement.querySelector("input[type=search]");
      this.cursor = this.graph.querySelector(".cursor");
      this.tip = this.graph.querySelector(".tip");
      this.status = this.graph.parentElement.querySelector(".timeline-status");
      this.voice = this.graph.parentElement.querySelector(".timeline-voice");
      this.meta = this.area = null;
      this.sources = [];
      this.hidden = [];
      this.window = null;
      this.chosen = [];
      this.links = null;
      this.span = null;
      this.found = null;
      this.onWindow = this.onChoose = this.onDrawn = () => {};
      this.rendered = this.turn = 0;
      this.listen();
    }

    // ---- what is shown ----------------------------------------------------

    // Called with what the server says of the devices: of another run, or of the same one
    // that has been judged meanwhile.
    frame(meta, runs, window, op) {
      const isOther = runs.join("\n") !== this.sources.map((s) => s.run).join("\n");
      const isNew = isOther || this.meta.is_judged !== meta.is_judged;
      this.meta = meta;
      this.whole = meta.whole_us;
      if (isNew) {
        this.sources = runs.map((run) => new Source(run, () => this.redraw()));
        this.chosen = [];
        this.turn += 1;
        this.links = this.span = this.found = this.counter = this.path = null;
        this.sources.forEach((source) => source.begin(this.whole));
        this.drawMap();
      }
      if (isOther || !this.window) this.window = (window || this.whole).slice();
      this.look = makeLook(meta, this.canvas.getContext("2d"));
      this.show();
      if (isNew && Number.isInteger(op)) this.choose(op);
    }

    // Places everything anew; nothing has a place before the page shows it.
    show() {
      if (!this.meta || !this.graph.clientWidth) return;
      const isFirst = !this.area;
      this.measure();
      this.refresh();
      if (isFirst) this.chosen.forEach(({ told, source }) => this.reveal(told, source));
    }

    // Resolves when something is drawn, or when that takes too long to wait for.
    firstDrawn() {
      return new Promise((done) => {
        this.onDrawn = done;
        window.setTimeout(done, PATIENCE_MS);
      });
    }

    // The page has other colours.
    recolour() {
      if (!this.meta) return;
      this.look = makeLook(this.meta, this.canvas.getContext("2d"));
      this.redraw();
    }

    measure() {
      const width = this.graph.clientWidth;
      this.places = placeLines(this.meta, this.rows);
      const { top, bottom, lineHeight, height } = this.places;
      this.lineHeight = lineHeight;
      const left = this.headsWidth();
      this.area = { left, top, width: Math.max(width - left - RIGHT_PX, 1), height: bottom - top };
      this.map.style.marginLeft = left + "px";
      this.map.style.width = this.area.width + "px";
      const ratio = window.devicePixelRatio || 1;
      this.canvas.style.width = width + "px";
      this.canvas.style.height = height + "px";
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
      this.liftPinned();
      this.showHeads();
    }

    // Pinned devices stay in sight while the others are scrolled, if there is room.
    liftPinned() {
      const { bands, pinnedBottom, tops } = this.places;
      const [first] = bands;
      const hasRoom = pinnedBottom - first.top < PINNED_SHARE * this.graph.clientHeight;
      const isPinned = first.isPinned && hasRoom;
      this.lift = isPinned ? Math.max(this.graph.scrollTop - first.top + LIFTED_PX, 0) : 0;
      this.tops = tops.map((each) => each.map((y) => (y < pinnedBottom ? y + this.lift : y)));
    }

    // The device at a height of the canvas, with the lines around it.
    bandAt(y) {
      const { bands, pinnedBottom } = this.places;
      const at = y - this.lift < pinnedBottom && this.lift ? y - this.lift : y;
      return bands.find(({ top, bottom }) => at >= top && at <= bottom) || null;
    }

    refresh() {
      if (!this.area) return;
      const pixels = Math.round(this.area.width);
      this.sources.forEach((source) => source.want(this.window, pixels, this.hidden));
      this.wantCounter();
      this.wantPath();
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
      const { look, area, places } = this;
      look.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
      draw.times(look, area, this.window, this.origin());
      this.paintCounter();
      this.paintBands(places.bands.filter((band) => !this.lift || !band.isPinned));
      if (this.lift) this.paintLifted();
      this.paintMarks();
      this.paintMap();
      this.tell();
    }

    // Pinned devices, over those that are scrolled.
    paintLifted() {
      const { look, graph, places } = this;
      const { context } = look;
      context.save();
      context.fillStyle = look.surface;
      context.fillRect(0, graph.scrollTop, graph.clientWidth, this.pinnedEdge() - graph.scrollTop);
      context.restore();
      this.paintBands(places.bands.filter((band) => band.isPinned));
    }

    // Where what is scrolled comes into sight.
    pinnedEdge() {
      return this.lift ? this.places.pinnedBottom + this.lift + LIFTED_PX : this.graph.scrollTop;
    }

    paintBands(bands) {
      const { look, area, lift } = this;
      const isPinned = Boolean(lift) && bands.every((band) => band.isPinned);
      const raised = (each) => (isPinned ? { ...each, top: each.top + lift, bottom: each.bottom + lift, y: each.y + lift } : each);
      const titles = this.places.titles.filter((title) => !lift || title.isPinned === isPinned);
      draw.bands(look, area, bands.map(raised), titles.map(raised));
      const spans = this.sources.map((_, i) => {
        const own = bands.filter((band) => band.run === i).map(raised);
        return [Math.min(...own.map(({ top }) => top)), Math.max(...own.map(({ bottom }) => bottom))];
      });
      draw.grid(look, area, this.window, spans.filter(([top, bottom]) => top < bottom));
      this.sources.forEach((source, i) => {
        if (!source.data) return;
        const offset = this.x(source.window[0]);
        const scale = this.x(source.window[1]) - offset;
        const place = { left: area.left, width: area.width, offset, scale };
        const tops = [];
        bands.filter((band) => band.run === i).forEach(({ first, last }) => {
          for (let line = first; line <= last; line += 1) tops[line] = this.tops[i][line];
        });
        draw.ops(look, source, place, tops, this.lineHeight);
      });
    }

    paintMarks() {
      const { look, area } = this;
      const { context } = look;
      context.save();
      context.beginPath();
      context.rect(area.left - 3, area.top - 3, area.width + 6, area.height + 6);
      context.clip();
      this.paintPath();
      (this.links || []).forEach(([from, to, isMove]) => {
        const [a, b] = [this.at(from), this.at(to)];
        draw.arrow(look, isMove ? a.x0 : a.x1, a.y, b.x0, b.y, look.text);
      });
      this.chosen.filter((mark) => this.isInSight(mark)).forEach((mark) => {
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

    // Not behind what is pinned.
    isInSight({ source, told }) {
      return !this.lift || this.bandOf(source, told.line).isPinned || this.at({ source, told }).y > this.pinnedEdge();
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
      this.onDrawn();
      const sum = (key) => this.sources.reduce((n, s) => n + s.data[key], 0);
      Object.assign(this.graph.dataset, {
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
      if (!this.area) return;
      const { graph } = this;
      const y = this.tops[index][told.line];
      const isPinned = this.bandOf(index, told.line).isPinned && this.lift > 0;
      const isHigh = y - this.lineHeight < this.pinnedEdge();
      const isLow = y + this.lineHeight > graph.scrollTop + graph.clientHeight;
      if (!isPinned && (isHigh || isLow)) graph.scrollTop = y - graph.clientHeight / 2;
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

  Object.assign(Timeline.prototype, finding, hands, heads, map, meters, pair, path, rows, search);

  // One for each place that holds a timeline, made when it is first asked for.
  const made = {};
  window.placementTimeline.of = (id) => {
    if (!made[id] && document.getElementById(id)) made[id] = new Timeline(id);
    return made[id];
  };
  window.placementTimeline.recolour = () => Object.values(made).forEach((each) => each.recolour());
})();
