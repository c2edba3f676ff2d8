// What the page does without the server. The address is the only state: a control
// changes the address, and readAddress brings everything else in line with it.

(function () {
  "use strict";

  const setProps = (id, props) => window.dash_clientside.set_props(id, props);
  const say = (text) => setProps("message", { children: text });
  const timeline = (id) => window.placementTimeline.of(id || "timeline");
  const CLASSES = ["tracer", "forward", "colocated", "exempt", "unknown", "misplaced"];
  const VIEWS = ["run", "step", "compare"];
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
      view: VIEWS.includes(query.get("view")) ? query.get("view") : "run",
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
    if (state.view !== "run") query.set("view", state.view);
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

  function chooseOp(op) {
    if (same(op, known.op)) return;
    amend({ op, run: known.run });
    set("op", "data", op);
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

  async function selectRow() {
    const api = await window.dash_ag_grid.getApiAsync("gradient-table");
    selectNode(api, known.op, 40);
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
    window.placementTimeline.recolour();
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

  // What nobody sees before the timeline is loaded after it.
  let loading = null;

  function loadLate() {
    loading = loading || Promise.all([...document.querySelectorAll("meta[name=late-script]")].map(load));
    return loading;
  }

  function load({ content }) {
    const script = document.createElement("script");
    script.src = content;
    document.head.append(script);
    return new Promise((done, fail) => {
      script.addEventListener("load", done);
      script.addEventListener("error", fail);
    });
  }

  let hasTable = false;
  let hasComparison = false;
  let wantedPair = null;

  // The comparison has a place in the page once somebody compares.
  async function showPair(pair) {
    wantedPair = pair;
    if (hasComparison) return set("pair", "data", pair);
    await loadLate();
    set("compare-wanted", "data", true);
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
    },

    readAddress() {
      const state = parse(window.location.search);
      const isBare = !state.start && !state.run && state.view !== "compare";
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
      // The op and the window first: the run is drawn with them.
      set("op", "data", state.op);
      set("window", "data", state.window);
      set("compare-window", "data", state.compareWindow);
      set("run", "data", state.run);
      set("view", "data", state.view);
      if (state.view === "compare") showPair(pair);
      setProps("run-picker", { value: state.run });
      setProps("view-picker", { value: state.view });
      setProps("baseline", { value: state.baseline });
      setProps("candidate", { value: state.candidate });
    },

    arrange(view, shown) {
      if (view === "compare") return "view-compare";
      return shown ? "view-" + (view || "run") : "view-start";
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
        const kept = next.view === "step" ? "step" : "run";
        next = Object.assign(next, { run, view: kept }, afresh);
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

    async frame(run) {
      if (!run) return;
      const meta = await window.placementTimeline.askFrame(run);
      // Another may have been opened since.
      if (!meta || run !== known.run) return;
      const view = timeline();
      view.onChoose = chooseOp;
      view.onWindow = (range) => {
        amend({ window: range, run: known.run });
        set("window", "data", range);
      };
      view.frame(meta, [run], known.window, known.op);
      if (hasTable) {
        setProps("table-run", { data: run });
        return;
      }
      await view.firstDrawn();
      await loadLate();
      set("table-wanted", "data", true);
    },

    compare(place) {
      if (!place) return;
      hasComparison = true;
      set("pair", "data", wantedPair);
    },

    frameComparison(meta, pair) {
      if (!meta || !pair) return;
      const view = timeline("compare-timeline");
      view.onWindow = (range) => {
        amend({ compareWindow: range });
        set("compare-window", "data", range);
      };
      view.frame(meta, [pair.baseline, pair.candidate], known["compare-window"]);
    },

    choose(rows) {
      if (rows && rows.length) chooseOp(Number(rows[0].op));
    },

    closeOp() {
      chooseOp(null);
    },

    showWhole() {
      timeline().fit();
    },

    showWindow(range) {
      const view = timeline();
      if (view.whole) view.moveTo(range || view.whole);
    },

    showClasses(classes, choices) {
      timeline().hidden = CLASSES.filter((name) => !classes.includes(name));
      timeline().refresh();
    },

    showComparedClasses(classes) {
      const view = timeline("compare-timeline");
      view.hidden = CLASSES.filter((name) => !classes.includes(name));
      view.refresh();
    },

    chooseMove(rows) {
      if (!rows || !rows.length) return;
      timeline("compare-timeline").choose(Number(rows[0].baseline_op), 0);
    },

    // The icicle zooms by itself; the timeline shows when what is in the scope ran.
    showScope(click) {
      const point = click && click.points && click.points[0];
      if (!point || !point.customdata) return;
      const [from, to] = point.customdata;
      const margin = Math.max(1, (to - from) * 0.02);
      const now = parse(window.location.search);
      const next = Object.assign(now, { view: "run", window: [from - margin, to + margin] });
      next.run = next.run || known.run;
      setProps("address", { search: format(next) });
    },

    showOp(op) {
      timeline().choose(op);
      if (hasTable) selectRow();
    },

    selectRow,

    fillTable(place) {
      if (!place) return;
      hasTable = true;
      setProps("table-run", { data: known.run });
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
