// What is counted over time, above the ops, and the time under the pointer. Methods of a
// timeline.

(function () {
  "use strict";

  const { formatClock, formatTime, lastOf } = window.placementTimeline;
  const HEIGHT_PX = 20;
  const LEAST_PX = 24; // room that a frame must have above its first line
  const STEP_PX = 2;

  function formatBytes(n) {
    const power = Math.min(Math.floor(Math.log2(Math.max(n, 1)) / 10), 3);
    const value = n / 2 ** (10 * power);
    return value.toFixed(power && value < 100 ? 1 : 0) + " " + ["B", "KiB", "MiB", "GiB"][power];
  }

  window.placementTimeline.meters = {
    // Asks for the counter of the window.
    async wantCounter() {
      if (this.sources.length !== 1) return;
      this.countLast = this.countLast || lastOf((window) => this.fetchCounter(window));
      await this.countLast(this.window.slice());
    },

    async fetchCounter([from, to]) {
      const px = Math.max(1, Math.round(this.area.width / STEP_PX));
      const counter = await this.count({ from, to, px });
      if (!counter) return false;
      this.counter = Object.assign(counter, { window: [from, to] });
      this.redraw();
      return true;
    },

    // Counter 0 is how many devices are busy; what is known of the step follows.
    async count(query) {
      const [source] = this.sources;
      if (this.counterNumber) {
        const counted = await source.ask("counters", query);
        const others = Array.isArray(counted) ? counted : [];
        if (this.counterNumber <= others.length) {
          const { label, unit, most, values } = others[this.counterNumber - 1];
          const peak = unit === "bytes" ? formatBytes(most) : most;
          return { label, told: `${label}: at most ${peak}`, most, values };
        }
        this.counterNumber = 0;
      }
      const counted = await source.ask("busy", query);
      if (!counted || counted.error) return null;
      const label = "busy of " + counted.of;
      // Of a single device the ops themselves tell.
      const most = counted.of > 1 ? counted.of : 0;
      return { label, told: "busy devices", most, values: counted.busy };
    },

    async nextCounter() {
      if (this.sources.length !== 1) return;
      this.counterNumber = (this.counterNumber || 0) + 1;
      await this.wantCounter();
      if (this.counter) this.note(this.counter.told);
    },

    // A line under the pointer through all devices, and the moment that it is at.
    placeCursor(x) {
      const { area, cursor } = this;
      cursor.hidden = !area || x < area.left || x > area.left + area.width;
      if (cursor.hidden) return;
      Object.assign(cursor.style, {
        left: x + "px",
        top: area.top + "px",
        height: area.height + "px",
      });
      const us = this.us(x);
      const step = (this.window[1] - this.window[0]) / area.width;
      const text = this.origin() === null ? formatTime(us, step) : formatClock(us, this.origin());
      cursor.firstElementChild.textContent = text;
    },

    // When the step began, if times are shown by the clock; else null.
    origin() {
      return this.isByClock ? this.meta.origin_us : null;
    },

    toggleClock() {
      if (!this.meta.origin_us) {
        this.note("this run does not say when it was");
        return;
      }
      this.isByClock = !this.isByClock;
      this.redraw();
    },

    paintCounter() {
      const { area, counter, look } = this;
      const room = this.places.bands[0].top;
      if (!counter || this.sources.length !== 1 || !counter.most || room < LEAST_PX) return;
      const { context } = look;
      const bottom = room - 4;
      const left = this.x(counter.window[0]);
      const step = (this.x(counter.window[1]) - left) / counter.values.length;
      context.save();
      context.beginPath();
      context.rect(area.left, bottom - HEIGHT_PX, area.width, HEIGHT_PX);
      context.clip();
      context.fillStyle = look.muted;
      context.globalAlpha = 0.45;
      context.beginPath();
      context.moveTo(left, bottom);
      counter.values.forEach((n, i) => {
        const y = bottom - (n / counter.most) * HEIGHT_PX;
        context.lineTo(left + i * step, y);
        context.lineTo(left + (i + 1) * step, y);
      });
      context.lineTo(left + counter.values.length * step, bottom);
      context.fill();
      context.restore();
      context.fillStyle = look.muted;
      context.font = "10px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.textAlign = "right";
      context.fillText(counter.label, area.left - 6, bottom - HEIGHT_PX / 2);
      context.textAlign = "left";
    },
  };
})();
