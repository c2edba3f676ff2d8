// The critical path as a line through the ops of a run. Methods of a timeline.

(function () {
  "use strict";

  const { lastOf } = window.placementTimeline;
  const WIDE_PX = 2.5;
  const DASH = [5, 3]; // for what came from another device

  window.placementTimeline.path = {
    togglePath() {
      if (this.sources.length !== 1) return this.note("the path is shown of a single run");
      this.isPathShown = !this.isPathShown;
      this.path = null;
      this.refresh();
      return this.note(
        this.isPathShown
          ? "critical path: what each op of it waited for last; dashed from another device"
          : "critical path hidden"
      );
    },

    // Asks for the path in the window.
    wantPath() {
      if (!this.isPathShown || this.sources.length !== 1) return;
      this.askPath = this.askPath || lastOf((window) => this.fetchPath(window));
      this.askPath(this.window.slice());
    },

    async fetchPath([from, to]) {
      const [source] = this.sources;
      const path = await source.ask("path", { from, to });
      if (!path || path.error) return false;
      // Another run may be shown meanwhile.
      if (source === this.sources[0] && this.isPathShown) {
        this.path = path;
        this.redraw();
      }
      return true;
    },

    paintPath() {
      const { path, look } = this;
      if (!this.isPathShown || !path) return;
      const { context } = look;
      context.strokeStyle = look.text;
      context.lineWidth = WIDE_PX;
      path.op.forEach((_, i) => {
        const y = this.tops[0][path.line[i]];
        const [x0, x1] = [this.x(path.start_us[i]), this.x(path.end_us[i])];
        const isNext = i > 0 && path.step[i] === path.step[i - 1];
        if (isNext) {
          context.setLineDash(path.is_from_afar[i] ? DASH : []);
          context.beginPath();
          context.moveTo(this.x(path.end_us[i - 1]), this.tops[0][path.line[i - 1]]);
          context.lineTo(x0, y);
          context.stroke();
        }
        context.setLineDash([]);
        context.beginPath();
        context.moveTo(x0, y);
        context.lineTo(Math.max(x1, x0 + 1), y);
        context.stroke();
      });
      context.setLineDash([]);
    },
  };
})();
