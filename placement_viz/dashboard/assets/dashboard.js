// What the page does without the server. The address is the only state: a control
// changes the address, and readAddress brings everything else in line with it.

(function () {
  "use strict";

  const US = 1e6; // microseconds in a second, the unit of the time axis
  const SELECTED = "selected";

  const setProps = (id, props) => window.dash_clientside.set_props(id, props);
  const say = (text) => setProps("message", { children: text });
  const graph = () => document.querySelector("#timeline .js-plotly-plot");
  const comparison = () => document.querySelector("#compare-timeline .js-plotly-plot");
  // An empty figure is drawn before the first run is there; it has no meta.
  const isDrawn = (plot) => plot && plot._fullLayout && plot.layout.meta;
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  // ---- address ------------------------------------------------------------

  function whole(text) {
    return text !== null && /^\d{1,10}$/.test(text) ? Number(text) : null;
  }

  function range(query, first, last) {
    const ends = [parseFloat(query.get(first)), parseFloat(query.get(last))];
    return ends.every(Number.isFinite) && ends[0] < ends[1] ? ends : null;
  }

  function parse(search) {
    const query = new URLSearchParams(search);
    return {
      start: query.has("start"),
      view: query.get("view") === "compare" ? "compare" : "run",
      run: query.get("run"),
      op: whole(query.get("op")),
      window: range(query, "from", "to"),
      compareWindow: range(query, "cfrom", "cto"),
      baseline: query.get("baseline"),
      candidate: query.get("candidate"),
    };
  }

  function format(state) {
    const query = new URLSearchParams();
    if (state.view === "compare") query.set("view", "compare");
    if (state.run) query.set("run", state.run);
    if (state.op !== null && state.op !== undefined) query.set("op", state.op);
    if (state.window) {
      query.set("from", state.window[0]);
      query.set("to", state.window[1]);
    }
    if (state.baseline) query.set("baseline", state.baseline);
    if (state.candidate) query.set("candidate", state.candidate);
    if (state.compareWindow) {
      query.set("cfrom", state.compareWindow[0]);
      query.set("cto", state.compareWindow[1]);
    }
    return "?" + query.toString();
  }

  // Small steps (zoom, chosen op) replace the entry in the history, so that "back"
  // leads to the run before and not through every zoom.
  function amend(change) {
    const search = format(Object.assign(parse(window.location.search), change));
    window.history.replaceState(window.history.state, "", search);
  }

  // What the stores hold, so that only news is passed on.
  const known = { window: null, "compare-window": null, op: null };

  function set(id, prop, value) {
    if (same(known[id], value)) return;
    known[id] = value;
    setProps(id, { [prop]: value });
  }

  // ---- timeline -----------------------------------------------------------

  function outline(plot, box) {
    const shapes = (plot.layout.shapes || []).filter((s) => s.name !== SELECTED);
    const change = { shapes };
    if (box) {
      const line = { color: plot.layout.font.color, width: 3 };
      shapes.push(Object.assign({ name: SELECTED, type: "rect", line }, box));
      const [left, right] = plot.layout.xaxis.range;
      if (box.x1 < left || box.x0 > right) {
        const half = Math.max((right - left) / 2, (box.x1 - box.x0) * 0.75);
        const middle = (box.x0 + box.x1) / 2;
        change["xaxis.range"] = [middle - half, middle + half];
      }
    }
    window.Plotly.relayout(plot, change);
    const place = plot.getBoundingClientRect();
    if (box && (place.bottom < 80 || place.top > window.innerHeight - 80)) {
      plot.scrollIntoView({ block: "center" });
    }
  }

  function zoomInto(point) {
    const plot = graph();
    const bar = plot._fullData[point.curveNumber];
    const [start, length] = [bar.base[point.pointNumber], bar.x[point.pointNumber]];
    const range = [start - length * 0.1, start + length * 1.1];
    window.Plotly.relayout(plot, { "xaxis.range": range });
  }

  // Plotly's own range for "all" is wider than the run, which the figure remembers.
  function showAll(plot) {
    window.Plotly.relayout(plot, { "xaxis.range": plot.layout.meta.whole.slice() });
  }

  // Returns the new window in microseconds, null for the whole run, and undefined
  // when the window did not change.
  function windowAfter(plot, change) {
    if (!isDrawn(plot) || !change) return undefined;
    if (!Object.keys(change).some((key) => key.startsWith("xaxis."))) return undefined;
    if (change["xaxis.autorange"]) {
      showAll(plot);
      return undefined;
    }
    const range = plot.layout.xaxis.range;
    const whole = plot.layout.meta.whole;
    const near = (whole[1] - whole[0]) * 1e-6;
    if (range.every((x, i) => Math.abs(x - whole[i]) < near)) return null;
    return range.map((x) => Math.round(x * US * 10) / 10);
  }

  // The page keeps axes and outline; only the bars are exchanged.
  function exchangeBars(plot, bars) {
    if (!bars || !isDrawn(plot) || plot.data.length !== bars.length) return;
    window.Plotly.react(plot, bars, plot.layout, plot._context);
  }

  function moveWindow(plot, change) {
    const [left, right] = plot.layout.xaxis.range;
    window.Plotly.relayout(plot, { "xaxis.range": change(left, right, right - left) });
  }

  const KEYS = {
    "+": (l, r, w) => [l + w / 4, r - w / 4],
    "=": (l, r, w) => [l + w / 4, r - w / 4],
    "-": (l, r, w) => [l - w / 2, r + w / 2],
    ArrowLeft: (l, r, w) => [l - w / 5, r - w / 5],
    ArrowRight: (l, r, w) => [l + w / 5, r + w / 5],
  };

  function onKey(event) {
    const plot = graph();
    const isHere = event.target.classList && event.target.classList.contains("graph");
    if (!isDrawn(plot) || !isHere || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "0") {
      showAll(plot);
    } else if (KEYS[event.key]) {
      event.preventDefault();
      moveWindow(plot, KEYS[event.key]);
    }
  }

  // New rows reach the grid a moment after the page, so this asks again for a while.
  function selectNode(api, op, tries) {
    if (op !== known.op) return;
    const node = op === null ? null : api.getRowNode(String(op));
    const body = document.querySelector("#gradient-table .ag-body-viewport");
    // A grid that is not laid out yet cannot scroll.
    if (node && body && body.clientHeight > 0) {
      node.setSelected(true, true);
      api.ensureNodeVisible(node, "middle");
    } else {
      api.deselectAll();
      if (op !== null && tries) {
        window.setTimeout(() => selectNode(api, op, tries - 1), 50);
      }
    }
  }

  // ---- page ---------------------------------------------------------------

  function scheme() {
    const html = document.documentElement;
    const set = html.getAttribute("data-mantine-color-scheme");
    if (set === "dark" || set === "light") return set;
    return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  function showScheme() {
    document.body.dataset.agThemeMode = scheme();
    set("theme", "data", scheme());
  }

  // The run most likely to be compared with another is called much like it.
  function closest(label, labels) {
    const shared = (other) => {
      let n = 0;
      while (n < label.length && label[n] === other[n]) n += 1;
      return n;
    };
    const others = label ? labels.filter((other) => other !== label) : [];
    return others.sort((a, b) => shared(b) - shared(a))[0] || null;
  }

  let isPrepared = false;
  let isFromUpload = false;

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.placement = {
    prepare() {
      showScheme();
      if (isPrepared) return;
      isPrepared = true;
      new MutationObserver(showScheme).observe(document.documentElement, {
        attributeFilter: ["data-mantine-color-scheme"],
      });
      document.addEventListener("keydown", onKey);
    },

    readAddress() {
      const state = parse(window.location.search);
      const isBare = !state.start && !state.run && state.view === "run";
      const first = document.querySelector("[data-default-run]");
      if (isBare && first && first.dataset.defaultRun) state.run = first.dataset.defaultRun;
      const pair =
        state.baseline && state.candidate
          ? { baseline: state.baseline, candidate: state.candidate }
          : null;
      // A message about the run before is old news; one about an upload is not.
      if (known.run !== undefined && known.run !== state.run && !isFromUpload) say(null);
      isFromUpload = false;
      const isNews = state.view === "compare" ? pair : state.run;
      if (isNews && !same(isNews, known[state.view === "compare" ? "pair" : "run"])) {
        // uploads.js says how far it is, should it take long.
        document.dispatchEvent(new CustomEvent("placement:opening"));
      }
      // The op and the window first: the run's figure is drawn with them.
      set("op", "data", state.op);
      set("window", "data", state.window);
      set("compare-window", "data", state.compareWindow);
      set("run", "data", state.run);
      set("view", "data", state.view);
      if (state.view === "compare") set("pair", "data", pair);
      setProps("run-picker", { value: state.run });
      setProps("view-picker", { value: state.view });
      setProps("baseline", { value: state.baseline });
      setProps("candidate", { value: state.candidate });
    },

    arrange(view, shown) {
      if (view === "compare") return "view-compare";
      return shown ? "view-run" : "view-start";
    },

    navigate(go, run, view, baseline, candidate, swaps, choices) {
      const trigger = window.dash_clientside.callback_context.triggered_id;
      const now = parse(window.location.search);
      let next = Object.assign({}, now);
      const afresh = { op: null, window: null };
      if (trigger === "go") {
        isFromUpload = true;
        next = Object.assign(next, go, "run" in go ? afresh : { compareWindow: null });
      } else if (trigger === "run-picker") {
        if (!run || run === known.run) return;
        next = Object.assign(next, { run, view: "run" }, afresh);
      } else if (trigger === "view-picker") {
        next.view = view;
        if (view === "compare") {
          const labels = (choices || []).flatMap((g) => g.items.map((i) => i.value));
          next.run = next.run || known.run || null;
          next.baseline = next.baseline || next.run || labels[0] || null;
          next.candidate = next.candidate || closest(next.baseline, labels);
        }
      } else if (trigger === "baseline" || trigger === "candidate") {
        if (same([baseline, candidate], [now.baseline, now.candidate])) return;
        Object.assign(next, { baseline, candidate, compareWindow: null });
      } else if (trigger === "swap") {
        [next.baseline, next.candidate] = [now.candidate, now.baseline];
      }
      if (!same(next, now)) setProps("address", { search: format(next) });
    },

    choose(click, rows) {
      const trigger = window.dash_clientside.callback_context.triggered_id;
      let op = null;
      if (trigger === "timeline") {
        if (!click || !click.points.length) return;
        const point = click.points[0];
        // Dash leaves out what Plotly got as a typed array.
        op = graph()._fullData[point.curveNumber].customdata[point.pointNumber];
        // Forgotten at once, so that a second click on the same op is news again.
        setProps("timeline", { clickData: null });
        if (op < 0) {
          zoomInto(point);
          return;
        }
      } else if (trigger === "gradient-table") {
        if (!rows || !rows.length) return;
        op = Number(rows[0].op);
      }
      if (same(op, known.op)) return;
      amend({ op, run: known.run });
      set("op", "data", op);
    },

    zoom(change) {
      const range = known.run ? windowAfter(graph(), change) : undefined;
      if (range === undefined || same(range, known.window)) return;
      amend({ window: range, run: known.run });
      set("window", "data", range);
    },

    zoomComparison(change) {
      const range = windowAfter(comparison(), change);
      if (range === undefined || same(range, known["compare-window"])) return;
      amend({ compareWindow: range });
      set("compare-window", "data", range);
    },

    showWhole() {
      if (isDrawn(graph())) showAll(graph());
    },

    showWindow(range) {
      const plot = graph();
      if (!isDrawn(plot)) return;
      const target = range ? range.map((us) => us / US) : plot.layout.meta.whole.slice();
      const [left, right] = plot.layout.xaxis.range;
      const near = (right - left) * 1e-3;
      if (Math.abs(left - target[0]) < near && Math.abs(right - target[1]) < near) return;
      window.Plotly.relayout(plot, { "xaxis.range": target });
    },

    refine(bars, classes) {
      if (bars) bars.forEach((bar) => (bar.visible = classes.includes(bar.meta)));
      exchangeBars(graph(), bars);
    },

    refineComparison(bars) {
      exchangeBars(comparison(), bars);
    },

    showClasses(classes) {
      const plot = graph();
      if (!isDrawn(plot)) return;
      const visible = plot.data.map((trace) => classes.includes(trace.meta));
      window.Plotly.restyle(plot, { visible });
    },

    outline(box) {
      if (isDrawn(graph())) outline(graph(), box);
    },

    async selectRow(op) {
      const api = await window.dash_ag_grid.getApiAsync("gradient-table");
      selectNode(api, op, 40);
    },
  };

  window.dashAgGridFunctions = window.dashAgGridFunctions || {};
  window.dashAgGridFunctions.placementTheme = (theme) =>
    theme.withParams({
      accentColor: "var(--accent)",
      backgroundColor: "var(--surface)",
      borderColor: "var(--line)",
      chromeBackgroundColor: "var(--band)",
      fontFamily: "inherit",
      fontSize: 13,
      foregroundColor: "var(--text)",
      headerFontSize: 12,
      spacing: 5,
      wrapperBorder: false,
      wrapperBorderRadius: 0,
    });
})();
