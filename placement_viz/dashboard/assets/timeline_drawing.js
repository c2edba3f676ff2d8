// Ops, times and marks on a canvas. Nothing here asks or remembers anything.

(function () {
  "use strict";

  const LINE_SHARE = 0.8;
  const TRACER_SHARE = 0.45;
  const LABEL_PX = 28;
  const NARROW_PX = 3;
  const FONT = "11px system-ui, sans-serif";
  const TITLE_FONT = "13px system-ui, sans-serif";
  const UNITS = [
    [1e6, "s"],
    [1e3, "ms"],
    [1, "µs"],
  ];

  function formatTime(us, step) {
    const [size, unit] = UNITS.find(([size]) => Math.abs(us) >= size) || UNITS[2];
    const digits = Math.max(0, Math.ceil(-Math.log10((step || us || 1) / size) - 1e-9));
    return (us / size).toFixed(Math.min(digits, 6)) + " " + unit;
  }

  // The time of day in a step that began at `origin`, in microseconds since 1970.
  function formatClock(us, origin) {
    const all = Math.round(origin + us);
    const second = new Date(Math.floor(all / 1e3)).toISOString().slice(11, 19);
    return second + "." + String(((all % 1e6) + 1e6) % 1e6).padStart(6, "0");
  }

  // A length in three digits.
  function formatLength(us) {
    const [size, unit] = UNITS.find(([size]) => Math.abs(us) >= size) || UNITS[2];
    const value = us / size;
    return value.toFixed(Math.abs(value) >= 100 || unit === "µs" ? 0 : 1) + " " + unit;
  }

  function tickStep(width, pixels) {
    const rough = (width / pixels) * 110;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    return power * [1, 2, 5, 10].find((n) => n * power >= rough);
  }

  // A pattern that tells a class apart for who cannot tell its colour.
  function hatch(kind, fill, line) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const context = tile.getContext("2d");
    context.fillStyle = fill;
    context.fillRect(0, 0, 6, 6);
    context.strokeStyle = line;
    context.fillStyle = line;
    context.lineWidth = 1.4;
    context.beginPath();
    if (kind === "/" || kind === "x") {
      [-6, 0, 6].forEach((x) => {
        context.moveTo(x - 1, 7);
        context.lineTo(x + 7, -1);
      });
    }
    if (kind === "x") {
      [-6, 0, 6].forEach((x) => {
        context.moveTo(x - 1, -1);
        context.lineTo(x + 7, 7);
      });
    }
    context.stroke();
    if (kind === ".") context.fillRect(2, 2, 2, 2);
    return context.createPattern(tile, "repeat");
  }

  // How everything looks, made once for a colour scheme: the colours are those of the page.
  function makeLook({ classes, hatches }, context) {
    const style = window.getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue("--" + name).trim();
    const fills = classes.map(colour);
    const surface = colour("surface");
    context.font = FONT;
    return {
      // How wide a letter is in this browser's font, more or less.
      letter: context.measureText("nesaMulBackprop_1").width / 17,
      fills,
      patterns: fills.map((fill, i) => (hatches[i] ? hatch(hatches[i], fill, surface) : fill)),
      tracer: classes.indexOf("tracer"),
      last: classes.length,
      text: colour("text"),
      muted: colour("muted"),
      surface,
      band: colour("band"),
      grid: colour("grid"),
      context,
    };
  }

  // What lies behind the ops of devices, and the names of two runs.
  function drawBands(look, area, bands, titles) {
    const { context } = look;
    context.fillStyle = look.band;
    bands.forEach(({ top, bottom }) => context.fillRect(area.left, top, area.width, bottom - top));
    context.fillStyle = look.text;
    context.font = TITLE_FONT;
    context.textBaseline = "bottom";
    titles.forEach(({ text, y }) => context.fillText(text, area.left, y));
  }

  // Draws a source: `place` turns parts of its window into pixels. A line without a place
  // in `tops` is left out.
  function drawOps(look, source, place, tops, height) {
    const { context } = look;
    const { op, kind, begin, end, labels } = source.data;
    const n = op.length;
    const left = place.left;
    const right = place.left + place.width;
    context.font = FONT;
    context.textBaseline = "middle";
    for (let turn = 0; turn < look.last; turn += 1) {
      const isTracer = turn === look.tracer;
      const tall = height * (isTracer ? TRACER_SHARE : LINE_SHARE);
      let isSet = false;
      for (let i = 0; i < n; i += 1) {
        const middle = tops[kind[i] >> 8];
        if ((kind[i] & 255) !== turn || middle === undefined) continue;
        let x0 = place.offset + begin[i] * place.scale;
        let x1 = place.offset + end[i] * place.scale;
        if (x1 < left || x0 > right) continue;
        x0 = Math.max(x0, left);
        x1 = Math.min(x1, right);
        const y = middle - tall / 2;
        const width = x1 - x0;
        if (width < NARROW_PX) {
          if (isSet !== "plain") context.fillStyle = look.fills[turn];
          isSet = "plain";
          context.fillRect(x0, y, Math.max(width, 1), tall);
          continue;
        }
        if (isSet !== "hatched") context.fillStyle = look.patterns[turn];
        isSet = "hatched";
        // A little room between neighbours, so that each is seen.
        context.fillRect(x0, y, op[i] < 0 ? width : width - 0.6, tall);
        const label = width > LABEL_PX && labels[op[i]];
        if (label && tall >= 11) {
          drawLabel(look, label, x0, y, width, tall, look.fills[turn]);
          isSet = false;
        }
      }
    }
  }

  function drawLabel(look, text, x, y, width, tall, fill) {
    const { context } = look;
    const room = Math.floor((width - 8) / look.letter);
    if (room < 2) return;
    const shown = text.length > room ? text.slice(0, room - 1) + "…" : text;
    context.save();
    context.beginPath();
    context.rect(x, y, width - 1, tall);
    context.clip();
    // Text needs a quiet ground, which a hatch is not.
    context.fillStyle = fill;
    context.fillRect(x + 2, y, Math.min(width - 4, context.measureText(shown).width + 4), tall);
    context.fillStyle = look.surface;
    context.fillText(shown, x + 4, y + tall / 2 + 0.5);
    context.restore();
  }

  // The round moments of a window: [moment, pixel] each, and how far they are apart.
  function ticksOf(area, window) {
    const width = window[1] - window[0];
    const step = tickStep(width, area.width);
    const first = Math.ceil(window[0] / step) * step;
    const n = Math.floor((window[1] - first) / step) + 1;
    const moments = Array.from({ length: Math.max(n, 0) }, (_, k) => first + k * step);
    return [moments.map((us) => [us, area.left + ((us - window[0]) / width) * area.width]), step];
  }

  // Lines behind the ops, in each of the spans from top to bottom.
  function drawGrid(look, area, window, spans) {
    look.context.fillStyle = look.grid;
    ticksOf(area, window)[0].forEach(([, x]) => {
      spans.forEach(([top, bottom]) => look.context.fillRect(Math.round(x), top, 1, bottom - top));
    });
  }

  function drawTimes(look, area, window, origin) {
    const { context } = look;
    const [ticks, step] = ticksOf(area, window);
    context.font = FONT;
    context.textBaseline = "top";
    context.textAlign = "center";
    context.fillStyle = look.muted;
    ticks.forEach(([us, x]) => {
      const text = origin === null ? formatTime(us, step) : formatClock(us, origin);
      context.fillText(text, x, area.top + area.height + 6);
    });
    context.textAlign = "left";
  }

  function drawBox(look, x0, x1, y, height) {
    const { context } = look;
    context.strokeStyle = look.text;
    context.lineWidth = 3;
    context.strokeRect(x0 - 1.5, y - height / 2, Math.max(x1 - x0, 1) + 3, height);
  }

  function drawSpan(look, area, x0, x1, y0, y1, text) {
    const { context } = look;
    context.fillStyle = look.text;
    context.globalAlpha = 0.14;
    context.fillRect(x0, y0, x1 - x0, y1 - y0);
    context.globalAlpha = 1;
    context.fillRect(x0, y0, 1, y1 - y0);
    context.fillRect(x1, y0, 1, y1 - y0);
    context.font = "600 12px system-ui, sans-serif";
    context.textBaseline = "top";
    const wide = context.measureText(text).width + 10;
    const x = Math.min(Math.max((x0 + x1 - wide) / 2, area.left), area.left + area.width - wide);
    context.fillStyle = look.surface;
    context.fillRect(x, y0 + 2, wide, 19);
    context.fillStyle = look.text;
    context.fillText(text, x + 5, y0 + 6);
  }

  // From where a tensor was made to where it was used.
  function drawArrow(look, x0, y0, x1, y1, colour) {
    const { context } = look;
    const bend = Math.max(24, Math.abs(x1 - x0) / 3);
    context.strokeStyle = colour;
    context.fillStyle = colour;
    context.lineWidth = 1.6;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 7, y1 - 4);
    context.lineTo(x1 - 7, y1 + 4);
    context.fill();
  }

  Object.assign(window.placementTimeline, {
    draw: {
      LINE_SHARE,
      arrow: drawArrow,
      bands: drawBands,
      box: drawBox,
      grid: drawGrid,
      ops: drawOps,
      span: drawSpan,
      times: drawTimes,
    },
    formatClock,
    formatLength,
    formatTime,
    makeLook,
  });
})();
