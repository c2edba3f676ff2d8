// Devices folded to one line and unfolded again. Methods of a timeline.

(function () {
  "use strict";

  window.placementTimeline.layout = {
    // The device whose label or lines are at a height of the canvas.
    deviceAt(y) {
      const { yaxis } = this.plot._fullLayout;
      const first = this.tops[0][0];
      const line = this.meta.sources[0][0] + (y - first) / Math.abs(yaxis.d2p(1) - yaxis.d2p(0));
      const group = this.meta.groups.find(({ top, bottom }) => line >= top && line <= bottom);
      return group ? group.device : null;
    },

    fold(device) {
      if (!device) return;
      if (this.sources.length !== 1) {
        this.note("devices are folded in the view of one run");
        return;
      }
      if (!this.folded.delete(device)) this.folded.add(device);
      this.onFold([...this.folded]);
    },

    // The device of the chosen op, else all of them.
    foldChosen() {
      const mark = this.chosen[0];
      if (mark) {
        this.fold(this.deviceAt(this.tops[mark.source][mark.told.line]));
        return;
      }
      const devices = this.meta.groups.map((group) => group.device);
      const isAll = devices.every((device) => this.folded.has(device));
      this.folded = new Set(isAll ? [] : devices);
      this.onFold([...this.folded]);
    },
  };
})();
