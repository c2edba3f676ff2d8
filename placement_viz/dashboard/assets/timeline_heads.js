// The names of the devices beside their lines: buttons that fold, pin and move them.
// Methods of a timeline.

(function () {
  "use strict";

  const GAP_PX = 18;
  const LEAST_PX = 56;
  const MOST_PX = 168;
  const DRAG_PX = 5;
  const FONTS = { device: "600 12px system-ui, sans-serif", row: "10px system-ui, sans-serif" };
  const KEYS = "Enter folds, P pins, Shift and arrow keys move";

  function element(kind, className, text) {
    const made = document.createElement(kind);
    made.className = className;
    made.textContent = text;
    return made;
  }

  function button(className, text, name) {
    const made = element("button", className, text);
    made.type = "button";
    if (name) made.setAttribute("aria-label", name);
    return made;
  }

  const textOf = ({ device, row }) => [device, row].filter(Boolean).join(" ");

  window.placementTimeline.heads = {
    // How wide the names are, within reason.
    headsWidth() {
      const context = this.canvas.getContext("2d");
      const widths = this.places.bands.flatMap((band) =>
        band.labels.map((label) => {
          context.font = label.row ? FONTS.row : FONTS.device;
          return context.measureText(textOf(label)).width;
        })
      );
      return Math.min(Math.max(Math.ceil(Math.max(0, ...widths)) + GAP_PX, LEAST_PX), MOST_PX);
    },

    showHeads() {
      const { bands, height } = this.places;
      Object.assign(this.heads.style, { width: this.area.left + "px", height: height + "px" });
      const held = this.heads.contains(document.activeElement) && document.activeElement.closest(".head");
      this.heads.replaceChildren(...bands.map((band) => this.makeHead(band)));
      this.liftHeads();
      if (!held) return;
      const same = ({ dataset }) => dataset.device === held.dataset.device && dataset.run === held.dataset.run;
      const head = [...this.heads.children].find(same);
      if (head) head.querySelector(".device").focus({ preventScroll: true });
    },

    makeHead(band) {
      const head = element("div", band.isPinned ? "head pinned" : "head", "");
      head.dataset.device = band.device;
      head.dataset.run = band.run;
      head.style.height = band.bottom - band.top + "px";
      const [first, ...others] = band.labels;
      const name = button(first.row ? "device row" : "device", textOf(first));
      name.style.top = first.y - band.top + "px";
      name.setAttribute("aria-expanded", String(!band.isFolded));
      name.setAttribute("aria-keyshortcuts", "P Shift+ArrowUp Shift+ArrowDown");
      name.title = `${band.device}\n${KEYS}`;
      const rows = (band.isFolded ? [] : others).map((label) => {
        const row = element("span", "row", textOf(label));
        row.style.top = label.y - band.top + "px";
        return row;
      });
      head.append(name, ...rows, this.makeTools(band));
      return head;
    },

    // For the pointer; the keyboard does the same from the name.
    makeTools(band) {
      const tools = element("span", "tools", "");
      const pin = button("pin", "⚲", `Pin ${band.name} above the others`);
      pin.setAttribute("aria-pressed", String(band.isPinned));
      const [up, down] = [button("up", "↑", `Move ${band.name} up`), button("down", "↓", `Move ${band.name} down`)];
      [pin, up, down].forEach((each) => {
        each.tabIndex = -1;
        each.title = each.getAttribute("aria-label");
      });
      tools.append(pin, up, down);
      return tools;
    },

    // Pinned ones stay in sight while the others are scrolled.
    liftHeads() {
      this.places.bands.forEach((band, i) => {
        this.heads.children[i].style.top = band.top + (band.isPinned ? this.lift : 0) + "px";
      });
    },

    listenToHeads() {
      this.heads.addEventListener("click", (event) => {
        const head = event.target.closest(".head");
        if (!head || !event.target.closest("button") || this.wasDragged) return;
        const { device } = head.dataset;
        const act = {
          pin: () => this.pin(device),
          up: () => this.moveDevice(device, -1),
          down: () => this.moveDevice(device, 1),
        }[event.target.className];
        if (act) act();
        else this.fold(device);
      });
      this.heads.addEventListener("keydown", (event) => this.onHeadKey(event));
      this.heads.addEventListener("pointerdown", (event) => this.onHeadDown(event));
      this.heads.addEventListener("pointermove", (event) => this.onHeadMove(event));
      this.heads.addEventListener("pointerup", () => (this.dragged = null));
      this.heads.addEventListener("pointercancel", () => (this.dragged = null));
    },

    onHeadKey(event) {
      const head = event.target.closest(".head");
      if (!head || event.ctrlKey || event.metaKey || event.altKey) return;
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (event.key.toLowerCase() === "p") this.pin(head.dataset.device);
      else if (step && event.shiftKey) this.moveDevice(head.dataset.device, step);
      else if (step) this.focusHead(head, step);
      else if (event.key !== "Enter" && event.key !== " ") return;
      // Else it would be a key of the timeline too.
      event.stopPropagation();
      if (event.key !== "Enter" && event.key !== " ") event.preventDefault();
    },

    focusHead(head, step) {
      const next = step < 0 ? head.previousElementSibling : head.nextElementSibling;
      if (next) next.querySelector(".device").focus();
    },

    onHeadDown(event) {
      const head = event.target.closest(".head");
      this.wasDragged = false;
      if (!head || event.button || event.target.closest(".tools")) return;
      this.dragged = { ...head.dataset, y: event.clientY };
    },

    // Changes places with a device once the pointer has passed the middle of it.
    onHeadMove(event) {
      const { dragged } = this;
      if (!dragged) return;
      if (!this.wasDragged) {
        if (Math.abs(event.clientY - dragged.y) < DRAG_PX) return;
        this.wasDragged = true;
        this.heads.setPointerCapture(event.pointerId);
      }
      const heads = [...this.heads.children];
      const at = heads.findIndex(
        ({ dataset }) => dataset.device === dragged.device && dataset.run === dragged.run
      );
      const middle = (i) => {
        const box = heads[i].getBoundingClientRect();
        return (box.top + box.bottom) / 2;
      };
      const isPeer = (i) =>
        heads[i] && heads[i].dataset.run === dragged.run && heads[i].className === heads[at].className;
      if (isPeer(at - 1) && event.clientY < middle(at - 1)) this.moveDevice(dragged.device, -1);
      else if (isPeer(at + 1) && event.clientY > middle(at + 1)) this.moveDevice(dragged.device, 1);
    },
  };
})();
