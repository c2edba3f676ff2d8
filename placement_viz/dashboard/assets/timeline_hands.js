// Pointer, wheel, touch and keys: what they do to a timeline, whose methods these are.

(function () {
  "use strict";

  const ZOOM = 1.6;
  const CLICK_PX = 4;
  const HELP = [
    ["wheel, W S, + -", "zoom in and out"],
    ["drag, A D, ← →", "move"],
    ["Shift and drag", "measure a part: its length, its ops by verdict and type"],
    ["m", "zoom to that part, or to the chosen op"],
    ["double click, 0", "show all"],
    ["[ ]", "misplaced op before, after"],
    ["f", "forward op of the chosen op"],
    ["i", "arrows from its inputs and to its consumers"],
    ["k", "critical path: what the step waited for from begin to end"],
    ["u", "above the ops: busy devices, tensors on their way, memory held"],
    ["t", "times from the start of the step, or by the clock"],
    ["c, click on a device", "fold its lines into one, and unfold them"],
    ["drag a device; on its name Shift and ↑ ↓", "move it up or down"],
    ["p on the name of a device", "pin it above the others"],
    [", .", "compared runs: the second earlier, later"],
    ["/", "search names and types (a regular expression)"],
    ["n N", "next and previous of what was found"],
    ["Esc", "forget measure, arrows and help"],
    ["?", "this list"],
  ];

  const KEYS = {
    w: (t) => t.zoom(1 / ZOOM),
    s: (t) => t.zoom(ZOOM),
    a: (t) => t.pan(-0.2),
    d: (t) => t.pan(0.2),
    "+": (t) => t.zoom(1 / ZOOM),
    "=": (t) => t.zoom(1 / ZOOM),
    "-": (t) => t.zoom(ZOOM),
    ArrowLeft: (t) => t.pan(-0.2),
    ArrowRight: (t) => t.pan(0.2),
    ArrowUp: (t) => t.zoom(1 / ZOOM),
    ArrowDown: (t) => t.zoom(ZOOM),
    0: (t) => t.fit(),
    k: (t) => t.togglePath(),
    u: (t) => t.nextCounter(),
    t: (t) => t.toggleClock(),
    c: (t) => t.foldChosen(),
    m: (t) => t.zoomToSpan(),
    f: (t) => t.forward(),
    i: (t) => t.showLinks(),
    "[": (t) => t.beside(-1),
    "]": (t) => t.beside(1),
    ",": (t) => t.shiftBy(-1),
    ".": (t) => t.shiftBy(1),
    n: (t) => t.stepFound(1),
    N: (t) => t.stepFound(-1),
    "/": (t) => t.openSearch(),
    "?": (t) => t.toggleHelp(),
    Escape: (t) => t.forget(),
  };

  window.placementTimeline.hands = {
    listen() {
      this.listenToPair();
      this.listenToHeads();
      this.listenToMap();
      this.listenToSearch();
      this.pointers = new Map();
      this.canvas.addEventListener("wheel", (e) => this.onWheel(e), { passive: false });
      this.canvas.addEventListener("pointerdown", (e) => this.onDown(e));
      this.canvas.addEventListener("pointermove", (e) => this.onMove(e));
      this.canvas.addEventListener("pointerup", (e) => this.onUp(e));
      this.canvas.addEventListener("pointercancel", (e) => this.pointers.delete(e.pointerId));
      this.canvas.addEventListener("pointerleave", () => this.leave());
      this.canvas.addEventListener("dblclick", () => this.fit());
      this.graph.addEventListener("keydown", (e) => this.onKey(e));
      this.graph.addEventListener("scroll", () => this.onScroll());
      new ResizeObserver(() => this.show()).observe(this.graph);
    },

    place(event) {
      const box = this.canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    },

    onWheel(event) {
      if (!this.area) return;
      event.preventDefault();
      const pixels = event.deltaMode === 1 ? 20 : 1;
      const [dx, dy] = [event.deltaX * pixels, event.deltaY * pixels];
      if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) {
        this.pan((event.shiftKey ? dy || dx : dx) / this.area.width);
        return;
      }
      this.zoom(Math.exp(dy * 0.002), this.us(this.place(event)[0]));
    },

    onDown(event) {
      if (event.button) return;
      this.graph.focus({ preventScroll: true });
      this.canvas.setPointerCapture(event.pointerId);
      const [x, y] = this.place(event);
      const { clientY } = event;
      this.pointers.set(event.pointerId, { x, y, startX: x, startY: y, clientY });
      this.isSpan = event.shiftKey;
      this.hasMoved = false;
    },

    onMove(event) {
      const [x, y] = this.place(event);
      const pointer = this.pointers.get(event.pointerId);
      if (!pointer) {
        if (event.pointerType !== "mouse" || event.buttons) return;
        this.placeCursor(x);
        this.hover(x, y);
        return;
      }
      const moved = Math.hypot(x - pointer.startX, y - pointer.startY);
      if (moved > CLICK_PX) this.hasMoved = true;
      if (!this.hasMoved) return;
      this.leave();
      if (this.pointers.size === 2) {
        this.pinch(event.pointerId, x);
      } else if (this.isSpan) {
        this.stretch(pointer, x, y);
      } else {
        this.pan((pointer.x - x) / this.area.width);
        // Lines that are out of sight come along.
        if (event.pointerType === "mouse") this.graph.scrollTop += pointer.clientY - event.clientY;
      }
      Object.assign(pointer, { x, y, clientY: event.clientY });
    },

    onUp(event) {
      const pointer = this.pointers.get(event.pointerId);
      this.pointers.delete(event.pointerId);
      if (!pointer) return;
      if (!this.hasMoved) {
        this.click(pointer.startX, pointer.startY);
      } else if (this.isSpan) {
        this.measureSpan();
      }
    },

    // Two fingers: what is under each stays under it.
    pinch(moving, x) {
      const [id, other] = [...this.pointers].find(([key]) => key !== moving) || [];
      if (id === undefined) return;
      const before = this.pointers.get(moving).x;
      const [was, is] = [Math.abs(before - other.x), Math.abs(x - other.x)];
      if (was > 10 && is > 10) this.zoom(was / is, this.us(other.x));
    },

    stretch(pointer, x, y) {
      const { area } = this;
      const clip = (v, low, size) => Math.min(Math.max(v, low), low + size);
      const xs = [pointer.startX, x].map((v) => clip(v, area.left, area.width));
      const ys = [pointer.startY, y].map((v) => clip(v, area.top, area.height));
      const [from, to] = xs.map((v) => this.us(v)).sort((a, b) => a - b);
      this.span = { from, to, top: Math.min(...ys), bottom: Math.max(...ys, Math.min(...ys) + 22) };
      this.redraw();
    },

    onScroll() {
      if (!this.area || !this.places.pinnedBottom) return;
      this.liftPinned();
      this.liftHeads();
      this.redraw();
    },

    onKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.look) return;
      if (event.target.tagName === "INPUT") return;
      const action = KEYS[event.key] || KEYS[event.key.toLowerCase()];
      if (!action) return;
      event.preventDefault();
      action(this);
    },

    toggleHelp() {
      const card = this.graph.parentElement;
      let help = card.querySelector(".keys");
      if (help) return help.remove();
      help = document.createElement("div");
      help.className = "keys";
      help.setAttribute("role", "status");
      const list = document.createElement("dl");
      HELP.forEach(([keys, meaning]) => {
        const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
        dt.textContent = keys;
        dd.textContent = meaning;
        list.append(dt, dd);
      });
      help.append(list);
      return card.append(help);
    },

    forget() {
      const help = this.graph.parentElement.querySelector(".keys");
      if (help) help.remove();
      this.clear();
    },
  };
})();
