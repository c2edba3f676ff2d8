// What the timeline asks the server: windows full of ops, and single ops.

(function () {
  "use strict";

  let prefix = null;

  // The app may be served below a path.
  function address(name, query) {
    if (prefix === null) {
      const config = document.getElementById("_dash-config");
      prefix = config ? JSON.parse(config.textContent).requests_pathname_prefix : "/";
    }
    return prefix + "_timeline/" + name + "?" + new URLSearchParams(query);
  }

  // What the server's document named as asked first (document.py) is on its way already.
  function early(name, run) {
    const link = document.querySelector(`link[data-early="${name}"]`);
    if (!link || link.dataset.run !== run) return null;
    link.remove();
    return fetch(link.href).catch(() => null);
  }

  // Resolves to null when the server has no answer: the page says so elsewhere.
  async function ask(name, query) {
    return read(await fetch(address(name, query)).catch(() => null));
  }

  // The devices and lines of a run; null when the server does not have it.
  async function askFrame(run) {
    const frame = await read(await (early("frame", run) || fetch(address("frame", { run })).catch(() => null)));
    return frame && !frame.error ? frame : null;
  }

  async function read(answer) {
    if (!answer) return null;
    const isJson = (answer.headers.get("Content-Type") || "").includes("json");
    return isJson ? answer.json() : null;
  }

  // Does what was wanted last. There is never more than one `act` on its way; what is
  // wanted meanwhile replaces what was to be next. One that gives false ends that.
  function lastOf(act) {
    let wanted = null;
    let isBusy = false;
    return async (next) => {
      wanted = next;
      if (isBusy) return;
      isBusy = true;
      while (wanted) {
        const now = wanted;
        wanted = null;
        if ((await act(now)) === false) break;
      }
      isBusy = false;
    };
  }

  // A header in JSON, then op, line and class, begin and end of each segment.
  function decode(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const text = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
    const head = JSON.parse(text);
    const at = 4 + length;
    return {
      op: new Int32Array(buffer, at, head.n),
      kind: new Int32Array(buffer, at + 4 * head.n, head.n),
      begin: new Float32Array(buffer, at + 8 * head.n, head.n),
      end: new Float32Array(buffer, at + 12 * head.n, head.n),
      labels: head.labels,
      shown: head.shown,
      merged: head.merged,
    };
  }

  // The ops of one run in the window that was asked for last.
  class Source {
    constructor(run, onNews) {
      this.run = run;
      this.onNews = onNews;
      this.data = null;
      this.window = null;
      this.fetchLast = lastOf((wanted) => this.fetch(wanted));
      this.told = new Map();
      // How much later this run is drawn than it ran, for two that are compared.
      this.shift = 0;
    }

    want(window, pixels, hidden) {
      const shift = this.shift;
      const wanted = { window: window.slice(), pixels, shift, hidden: hidden.join(",") };
      const key = JSON.stringify(wanted);
      if (key === this.key) return;
      this.key = key;
      this.fetchLast(wanted);
    }

    async fetch({ window, pixels, hidden, shift }) {
      const query = { run: this.run, from: window[0] - shift, to: window[1] - shift, px: pixels, hide: hidden };
      const answer = await fetch(address("window", query)).catch(() => null);
      if (!answer || !answer.ok) {
        this.key = null;
        return false;
      }
      this.data = decode(await answer.arrayBuffer());
      this.window = window;
      this.onNews();
      return true;
    }

    // Begins with all of the run, if that was asked for before.
    async begin(whole) {
      const answer = await early("window", this.run);
      if (!answer || !answer.ok) return;
      const data = decode(await answer.arrayBuffer());
      if (this.data) return;
      Object.assign(this, { data, window: whole.slice() });
      this.onNews();
    }

    // What the pointer is told about an op; asked once.
    async op(op) {
      if (!this.told.has(op)) this.told.set(op, await ask("op", { run: this.run, op }));
      return this.told.get(op);
    }

    ask(name, query) {
      return ask(name, Object.assign({ run: this.run }, query));
    }
  }

  window.placementTimeline = { Source, askFrame, lastOf };
})();
