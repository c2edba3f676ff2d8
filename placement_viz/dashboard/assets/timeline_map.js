// The whole of a timeline, small, and which part of it is looked at. Methods of a
// timeline.

(function () {
  "use strict";

  const { Source, draw } = window.placementTimeline;
  const MAP_PIXELS = 600;

  window.placementTimeline.map = {
    drawMap() {
      this.mapSources = this.sources.map(({ run }) => {
        const source = new Source(run, () => this.redraw());
        source.want(this.whole, MAP_PIXELS, []);
        return source;
      });
    },

    paintMap() {
      const { map, look, places } = this;
      if (!this.mapSources.some((source) => source.data)) return;
      const ratio = window.devicePixelRatio || 1;
      const [width, height] = [map.clientWidth, map.clientHeight];
      map.width = Math.round(width * ratio);
      map.height = Math.round(height * ratio);
      const context = map.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const flat = Object.assign({}, look, { context, patterns: look.fills });
      // Line by line without what is between them, for there is little room.
      const levels = [...new Set(places.tops.flat())].sort((a, b) => a - b);
      const level = new Map(levels.map((y, i) => [y, i]));
      const lineHeight = height / levels.length;
      const all = this.whole[1] - this.whole[0];
      this.mapSources.forEach(({ data }, i) => {
        if (!data) return;
        const tops = places.tops[i].map((y) => (level.get(y) + 0.5) * lineHeight);
        const place = { left: 0, width, offset: (this.sources[i].shift / all) * width, scale: width };
        draw.ops(flat, { data: { ...data, labels: {} } }, place, tops, lineHeight / draw.LINE_SHARE);
      });
      const [x0, x1] = this.window.map((us) => ((us - this.whole[0]) / all) * width);
      context.fillStyle = look.surface;
      context.globalAlpha = 0.66;
      context.fillRect(0, 0, x0, height);
      context.fillRect(x1, 0, width - x1, height);
      context.globalAlpha = 1;
      context.strokeStyle = look.text;
      context.lineWidth = 1.5;
      context.strokeRect(x0 + 0.75, 0.75, Math.max(x1 - x0 - 1.5, 2), height - 1.5);
    },

    listenToMap() {
      this.map.addEventListener("pointerdown", (event) => {
        this.map.setPointerCapture(event.pointerId);
        this.onMap(event);
      });
      this.map.addEventListener("pointermove", (event) => event.buttons && this.onMap(event));
    },

    onMap(event) {
      if (!this.whole) return;
      const box = this.map.getBoundingClientRect();
      const share = (event.clientX - box.left) / box.width;
      const middle = this.whole[0] + share * (this.whole[1] - this.whole[0]);
      const half = (this.window[1] - this.window[0]) / 2;
      this.moveTo([middle - half, middle + half]);
    },
  };
})();
