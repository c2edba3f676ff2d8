// Where each line of a timeline lies. Nothing here draws or remembers anything.

(function () {
  "use strict";

  const LINE_PX = [
    [24, 22],
    [64, 15],
    [Infinity, 10],
  ];
  const GAP_LINES = 0.6;
  const TITLE_LINES = 1.6;
  const AIR_LINES = 0.2;
  const TOP_PX = 6;
  const METER_PX = 24; // how many devices are busy, above the ops of one run
  const TIMES_PX = 26;

  // Devices in the order of `rows`; those it does not know keep theirs, after it.
  function inOrder(groups, rows) {
    const place = (group) => {
      const at = rows.order.indexOf(group.device);
      return at < 0 ? rows.order.length : at;
    };
    return groups
      .map((group, i) => [place(group), i, group])
      .sort((a, b) => a[0] - b[0] || a[1] - b[1])
      .map(([, , group]) => group);
  }

  // What is drawn from top to bottom: pinned devices of each run, then the others.
  function listParts(frame, rows) {
    const parts = [];
    [true, false].forEach((isPinned) => {
      frame.runs.forEach(({ title, groups }, run) => {
        const some = groups.filter(({ device }) => rows.pinned.includes(device) === isPinned);
        if (title && some.length) parts.push({ title, isPinned, lines: TITLE_LINES });
        inOrder(some, rows).forEach((group) => {
          const isFolded = rows.folded.includes(group.device);
          const lines = isFolded ? 1 : group.last - group.first + 1;
          parts.push({ group, run, isPinned, isFolded, lines });
        });
      });
    });
    return parts;
  }

  // Where everything lies in pixels of the canvas. `frame` is what the server says of the
  // lines; `rows` is what a person made of them: devices in `order`, `pinned`, `folded`.
  function placeLines(frame, rows) {
    const parts = listParts(frame, rows);
    const n = parts.reduce((sum, { lines }) => sum + lines + GAP_LINES, 0);
    const lineHeight = LINE_PX.find(([most]) => n <= most)[1];
    const hasMeter = frame.runs.length === 1 && frame.runs[0].groups.length > 1;
    const top = TOP_PX + (hasMeter ? METER_PX : 0);
    const tops = frame.runs.map(() => []);
    const [bands, titles] = [[], []];
    let y = top + AIR_LINES * lineHeight;
    let pinnedBottom = 0;
    parts.forEach(({ title, group, run, isPinned, isFolded, lines }, i) => {
      const bottom = y + lines * lineHeight;
      if (group) {
        const at = (line) => y + (isFolded ? 0.5 : line - group.first + 0.5) * lineHeight;
        for (let line = group.first; line <= group.last; line += 1) tops[run][line] = at(line);
        const labels = group.labels.map((label) => ({ ...label, y: (at(label.first) + at(label.last)) / 2 }));
        bands.push({ ...group, run, isPinned, isFolded, labels, top: y, bottom });
      } else {
        titles.push({ text: title, isPinned, y: bottom - 0.1 * lineHeight });
      }
      if (isPinned) pinnedBottom = bottom;
      const isBeforeGroup = Boolean(group) && i < parts.length - 1;
      y = bottom + (isBeforeGroup ? GAP_LINES * lineHeight : 0);
    });
    const bottom = y + AIR_LINES * lineHeight;
    return { lineHeight, tops, bands, titles, top, bottom, pinnedBottom, height: bottom + TIMES_PX };
  }

  Object.assign(window.placementTimeline, { inOrder, placeLines });
})();
