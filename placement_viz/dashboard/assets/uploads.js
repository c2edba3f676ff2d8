// Files on their way to the server: sent in slices, then read there while this asks how
// far that is. The server answers what placement_viz/dashboard/upload_routes.py says.

(function () {
  "use strict";

  const FIRST_SLICE_BYTES = 1024 * 1024;
  const LEAST_SLICE_BYTES = 256 * 1024;
  const MOST_SLICE_BYTES = 8 * 1024 * 1024;
  // One is on its way while the server writes the other.
  const MOST_SLICES = 2;
  const POLL_MS = 300;
  const LEAST_POLL_MS = 40;
  // Who has waited for long can wait a little longer.
  const POLL_SHARE = 0.05;
  // A run that opens sooner needs no line about it.
  const SOON_MS = 400;
  const TIMEOUT_MS = 60 * 1000;
  // The server forgets an upload of which it hears nothing for as long.
  const PATIENCE_MS = 10 * 60 * 1000;
  // A server that was started anew knows nothing of what was sent before.
  const MOST_STARTS = 5;

  class Cancelled extends Error {}
  class Failed extends Error {} // its message is for the person
  class Forgotten extends Error {} // the server has no such upload
  class TooLarge extends Error {} // something on the way takes no slice of this size
  class Unanswered extends Error {} // worth another try

  const setProps = (id, props) => window.dash_clientside.set_props(id, props);
  const uploadsNode = () => document.getElementById("uploads");
  const fileInput = () => document.querySelector("#upload input[type=file]");
  const wait = (ms) => new Promise((resolve) => window.setTimeout(resolve, ms));

  // ---- words --------------------------------------------------------------

  function size(bytes) {
    const units = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
    const [unit, name] = units.find(([each]) => bytes >= each) || [1, "B"];
    const count = bytes / unit;
    return count.toFixed(count >= 10 || unit === 1 ? 0 : 1) + " " + name;
  }

  function duration(seconds) {
    const whole = Math.max(1, Math.ceil(seconds));
    if (whole < 100) return whole + " s";
    const minutes = Math.ceil(whole / 60);
    if (minutes < 100) return minutes + " min";
    return Math.floor(minutes / 60) + " h " + (minutes % 60) + " min";
  }

  function progress(state) {
    if (state.phase === "sending") return [state.sent, state.size];
    if (state.phase === "reading") return [state.read, state.total];
    return [null, null];
  }

  const VERBS = {
    sending: "Sending",
    waiting: "Waiting to be read",
    reading: "Reading",
    judging: "Judging where each op belongs",
    done: "Opening",
  };

  function sentence(state) {
    const [done, total] = progress(state);
    const verb = VERBS[state.phase];
    if (done === null || !total) return verb + " …";
    const parts = [verb + " " + Math.floor((100 * done) / total) + " %"];
    if (state.rate) parts.push(size(state.rate) + "/s");
    if (state.seconds_left) parts.push(duration(state.seconds_left) + " left");
    return parts.join(" · ");
  }

  // ---- lines --------------------------------------------------------------

  function element(tag, className, text) {
    const made = document.createElement(tag);
    made.className = className;
    if (text) made.textContent = text;
    return made;
  }

  // Read out: that a phase begins, and not each per cent.
  function announce(text) {
    uploadsNode().querySelector("[role=status]").textContent = text;
  }

  class Line {
    constructor(name, onCancel) {
      this.name = name;
      this.phase = null;
      this.node = element("div", "line");
      this.bar = element("progress", "");
      this.bar.setAttribute("aria-label", name);
      this.text = element("span", "what");
      this.node.append(element("b", "name", name), this.bar, this.text);
      if (onCancel) this.addButton("Cancel", "Cancel " + name, onCancel);
      uploadsNode().querySelector(".lines").append(this.node);
    }

    addButton(text, label, onClick) {
      if (this.button) this.button.remove();
      this.button = element("button", "quiet", text);
      this.button.type = "button";
      this.button.setAttribute("aria-label", label);
      this.button.addEventListener("click", onClick);
      this.node.append(this.button);
    }

    show(state) {
      const [done, total] = progress(state);
      if (done === null || !total) {
        this.bar.removeAttribute("value");
      } else {
        this.bar.max = total;
        this.bar.value = done;
      }
      this.say(sentence(state));
      if (state.phase !== this.phase) announce(VERBS[state.phase] + ": " + this.name);
      this.phase = state.phase;
    }

    say(text) {
      this.text.textContent = text;
    }

    fail(text) {
      const hadFocus = this.node.contains(document.activeElement);
      this.bar.remove();
      this.node.querySelector(".name").remove(); // the sentence begins with it
      this.node.classList.add("error");
      this.text.setAttribute("role", "alert");
      this.say(text);
      this.addButton("Dismiss", "Dismiss: " + text, () => this.remove());
      if (hadFocus) this.button.focus();
    }

    remove() {
      const hadFocus = this.node.contains(document.activeElement);
      this.node.remove();
      if (hadFocus && fileInput()) fileInput().focus();
    }
  }

  // ---- server -------------------------------------------------------------

  async function fail(response, path) {
    if (response.status === 404 && path.includes("/")) throw new Forgotten();
    if (response.status === 413 && path.includes("?")) throw new TooLarge();
    const told = await response.json().catch(() => ({}));
    if ([409, 429, 502, 503, 504].includes(response.status)) {
      throw new Unanswered(response.status === 429 ? "Waiting for its turn …" : "");
    }
    throw new Failed(told.error || "the server answered " + response.status);
  }

  // Returns what the server answers; an upload that is cancelled ends the request.
  async function ask(method, path, body, upload) {
    const control = new AbortController();
    const timer = window.setTimeout(() => control.abort(), TIMEOUT_MS);
    if (upload) upload.asked.add(control);
    const type = body instanceof Blob ? "application/octet-stream" : "application/json";
    let response;
    try {
      response = await window.fetch(uploadsNode().dataset.root + path, {
        method,
        body,
        headers: body ? { "Content-Type": type } : {},
        signal: control.signal,
      });
      if (response.ok) return response.status === 204 ? null : await response.json();
    } catch (error) {
      throw new Unanswered("The server does not answer; trying again …");
    } finally {
      window.clearTimeout(timer);
      if (upload) upload.asked.delete(control);
    }
    return fail(response, path);
  }

  // Tries until the server answers, or nobody waits any more.
  async function persist(upload, action) {
    const begun = performance.now();
    for (let pause = POLL_MS; ; pause = Math.min(2 * pause, 5000)) {
      if (upload.isCancelled) throw new Cancelled();
      try {
        return await action();
      } catch (error) {
        if (upload.isCancelled) throw new Cancelled();
        if (!(error instanceof Unanswered)) throw error;
        if (performance.now() - begun > PATIENCE_MS) {
          throw new Failed(
            upload.file.name + ": expected an answer of the server, found none in ten " +
              "minutes; see that it runs and send the file again",
          );
        }
        if (error.message) upload.line.say(error.message);
        await wait(pause);
      }
    }
  }

  async function checkReadable(file) {
    try {
      await file.slice(0, 1).arrayBuffer();
    } catch (error) {
      throw new Failed(
        file.name + ": expected a file as it was chosen, found that it changed, went " +
          "away or is a folder; choose it again",
      );
    }
  }

  // ---- one upload ---------------------------------------------------------

  class Upload {
    constructor(file) {
      this.file = file;
      this.path = null;
      this.asked = new Set();
      this.isCancelled = false;
      this.isSent = false;
      this.bytes = FIRST_SLICE_BYTES;
      this.mostBytes = MOST_SLICE_BYTES;
      this.slices = []; // promises, in the order of the file
      this.line = new Line(file.name, () => this.cancel());
      this.line.say("Waiting …");
    }

    cancel() {
      this.isCancelled = true;
      this.asked.forEach((control) => control.abort());
      this.forget();
      this.line.remove();
      announce("Cancelled: " + this.file.name);
    }

    forget() {
      const path = this.path;
      this.path = null;
      if (!path) return;
      // Also while the page is being left.
      const url = uploadsNode().dataset.root + path;
      window.fetch(url, { method: "DELETE", keepalive: true }).catch(() => {});
    }

    async begin() {
      const body = JSON.stringify({ name: this.file.name, size: this.file.size });
      // Not ended by a cancel, as then nobody would know what to cancel there.
      const state = await persist(this, () => ask("POST", "_uploads", body));
      this.path = "_uploads/" + state.id;
      if (this.isCancelled) this.forget();
      return state;
    }

    async send() {
      let state = await this.begin();
      while (state.phase === "sending") {
        this.line.show(state);
        try {
          state = await this.sendSlice(state);
        } catch (error) {
          if (!(error instanceof TooLarge) || error.isLeast) throw error;
        }
      }
      return state;
    }

    // Returns the state after one more slice. After a failure the server says what is
    // there, since the answer may have been lost and not the slice.
    sendSlice(known) {
      const ahead = { state: known };
      return persist(this, async () => {
        const state = ahead.state || (await ask("GET", this.path, undefined, this));
        ahead.state = null;
        if (state.phase !== "sending") return state;
        this.sendAhead(state.sent);
        try {
          return await this.slices.shift();
        } catch (error) {
          // What follows a slice that is missing is of no use.
          await Promise.allSettled(this.slices);
          this.slices = [];
          if (error instanceof Unanswered) await checkReadable(this.file);
          throw error;
        }
      });
    }

    sendAhead(sent) {
      if (!this.slices.length) this.offset = sent;
      while (this.slices.length < MOST_SLICES && this.offset < this.file.size) {
        const end = Math.min(this.offset + this.bytes, this.file.size);
        const slice = this.put(this.offset, end);
        slice.catch(() => {}); // whoever waits for it is told
        this.slices.push(slice);
        this.offset = end;
      }
    }

    async put(offset, end) {
      const begun = performance.now();
      const path = this.path + "?offset=" + offset;
      try {
        const state = await ask("PUT", path, this.file.slice(offset, end), this);
        // Slices of about a second: few requests, and a line that moves.
        const tookMs = performance.now() - begun;
        if (tookMs < 500) this.bytes *= 2;
        if (tookMs > 2000) this.bytes /= 2;
        return state;
      } catch (error) {
        error.isLeast = end - offset <= LEAST_SLICE_BYTES;
        if (error instanceof TooLarge) this.mostBytes = (end - offset) / 2;
        throw error;
      } finally {
        const bytes = Math.floor(Math.min(this.bytes, this.mostBytes));
        this.bytes = Math.max(LEAST_SLICE_BYTES, bytes);
      }
    }

    // Returns the label of the run, once it is open.
    async follow(state) {
      const begun = performance.now();
      for (;;) {
        // Said by its error, and not as one more phase.
        if (state.phase === "failed") throw new Failed(state.error);
        this.line.show(state);
        if (state.phase === "judging" && this.isAlone && !this.isShown) {
          // What ran can be looked at while it is judged.
          this.isShown = true;
          setProps("opened", { data: [state.label] });
        }
        if (state.phase === "done") return state.label;
        const pause = POLL_SHARE * (performance.now() - begun);
        await wait(Math.max(LEAST_POLL_MS, Math.min(pause, POLL_MS)));
        state = await persist(this, () => ask("GET", this.path, undefined, this));
      }
    }

    async open(onSent) {
      for (let starts = 1; ; starts += 1) {
        try {
          const state = await this.send();
          this.isSent = true;
          performance.mark("placement:sent");
          onSent();
          return await this.follow(state);
        } catch (error) {
          if (this.isCancelled) throw new Cancelled();
          if (!(error instanceof Forgotten) || starts === MOST_STARTS) throw error;
          this.isSent = false;
        }
      }
    }

    // Returns the label, or null when there is none; the line says why.
    async run(onSent) {
      if (this.isCancelled) return null;
      try {
        return await this.open(onSent);
      } catch (error) {
        if (error instanceof Cancelled) return null;
        this.forget();
        const known = error instanceof Failed ? error.message : null;
        this.line.fail(known || this.file.name + ": could not be sent; send it again");
        return null;
      } finally {
        onSent();
        active.delete(this);
      }
    }
  }

  const active = new Set();

  function refusal(file) {
    const limit = Number(uploadsNode().dataset.limitBytes);
    if (file.size <= limit) return null;
    return (
      file.name + ": expected at most " + limit / 1024 ** 3 + " GiB, found more; pack " +
      "it with gzip, or trace fewer steps"
    );
  }

  // Files chosen together are sent one after another and shown together.
  async function openFiles(files) {
    if (!files.length) return;
    uploadsNode().querySelectorAll(".line.error").forEach((node) => node.remove());
    setProps("message", { children: null });
    const uploads = [];
    for (const file of files) {
      const refused = refusal(file);
      if (refused) new Line(file.name, null).fail(refused);
      else uploads.push(new Upload(file));
    }
    uploads.forEach((upload) => active.add(upload));
    uploads.forEach((upload) => (upload.isAlone = uploads.length === 1));
    const ends = [];
    for (const upload of uploads) {
      await new Promise((next) => ends.push(upload.run(next)));
    }
    const opened = await Promise.all(ends);
    const labels = opened.filter((label, i) => label !== null && !uploads[i].isCancelled);
    uploads.filter((each) => each.line.phase === "done").forEach((each) => each.line.remove());
    if (uploads.some((each) => each.isShown)) setProps("judged", { data: labels });
    else if (labels.length) setProps("opened", { data: labels });
  }

  // ---- what the server reads itself ---------------------------------------

  let watched = 0;

  async function readings() {
    try {
      return await ask("GET", "_reading");
    } catch (error) {
      return [];
    }
  }

  // Shows what is read for the page until nothing is, or something else is opened.
  async function watchReadings() {
    const mine = (watched += 1);
    const lines = new Map();
    await wait(SOON_MS);
    // Between two runs of a comparison there may be a moment without.
    for (let idle = 0; mine === watched && idle < 2; ) {
      const states = await readings();
      if (mine !== watched) break;
      idle = states.length ? 0 : idle + 1;
      for (const [name, line] of lines) {
        if (states.some((state) => state.name === name)) continue;
        line.remove();
        lines.delete(name);
        if (line.isShown) setProps("judged", { data: [name] });
      }
      for (const state of states) {
        if (!lines.has(state.name)) lines.set(state.name, new Line(state.name, null));
        lines.get(state.name).show(state);
        lines.get(state.name).isShown = state.shown;
      }
      await wait(POLL_MS);
    }
    lines.forEach((line) => line.remove());
  }

  // ---- page ---------------------------------------------------------------

  function addInput() {
    const label = document.getElementById("upload");
    if (!label || fileInput()) return;
    const input = element("input", "unseen");
    input.type = "file";
    input.multiple = true;
    input.setAttribute("aria-label", "Timeline file to open");
    input.addEventListener("change", () => {
      const files = Array.from(input.files);
      // The same file may be chosen again, after it was mended.
      input.value = "";
      openFiles(files);
    });
    label.append(input);
  }

  // A file may be dropped anywhere on the page.
  function onDrop(event) {
    document.body.classList.remove("dropping");
    const files = event.dataTransfer && event.dataTransfer.files;
    if (!files || !files.length || !uploadsNode()) return;
    event.preventDefault();
    openFiles(Array.from(files));
  }

  function onDrag(event) {
    if (!Array.from((event.dataTransfer || {}).types || []).includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  }

  document.addEventListener("drop", onDrop);
  document.addEventListener("dragover", onDrag);
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  });
  // Said by dashboard.js: the page now waits for a run that it asked for.
  document.addEventListener("placement:opening", watchReadings);
  window.addEventListener("pagehide", (event) => {
    // What is sent already is read to its end, and is there when the page is back.
    if (!event.persisted) active.forEach((each) => each.isSent || each.forget());
  });
  addInput();
  new MutationObserver(addInput).observe(document.documentElement, {
    childList: true,
    subtree: true,
  });
})();
