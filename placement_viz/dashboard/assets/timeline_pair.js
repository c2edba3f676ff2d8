// What only a timeline of two runs can do: pairs of ops, and how the runs are aligned.
// These are methods of a timeline.

(function () {
  "use strict";

  const { formatLength } = window.placementTimeline;
  const FINE = 0.01; // of the window, for a run that is moved by hand

  window.placementTimeline.pair = {
    // The same op of the other run lights up too, with an arrow where it moved.
    async chooseTwin(index, told) {
      const [baseline, candidate] = this.sources.map((source) => source.run);
      const query = { baseline, candidate, side: index, op: told.op };
      const twin = await this.sources[index].ask("twin", query);
      const mark = this.chosen[0];
      if (!mark || mark.told !== told) return;
      if (!twin || twin.error) {
        this.note("only this run has this op");
        return;
      }
      const other = { source: 1 - index, told: twin };
      this.chosen.push(other);
      this.links = [index === 0 ? [mark, other, true] : [other, mark, true]];
      const [was, now] = index === 0 ? [told, twin] : [twin, told];
      this.note(
        `${told.name}: ${was.told[0]} → ${now.told[0]}` +
          (was.op_class === now.op_class ? "" : ` (${was.op_class} → ${now.op_class})`)
      );
      this.redraw();
    },

    // What the server knows of a run has the run's own times.
    shifted(source, query) {
      const { from, to } = query;
      return Object.assign({}, query, { from: from - source.shift, to: to - source.shift });
    },

    // Draws the second run `us` later than it ran.
    shiftTo(us) {
      const [, second] = this.sources;
      if (!second) return;
      second.shift = us;
      const place = this.graph.parentElement.querySelector(".shift");
      if (place) place.textContent = us ? `After: ${us > 0 ? "+" : ""}${formatLength(us)}` : "";
      this.refresh();
    },

    alignStarts() {
      this.shiftTo(0);
    },

    alignChosen() {
      if (this.chosen.length < 2) {
        this.note("choose an op that both runs have first");
        return;
      }
      const start = (index) => this.chosen.find((mark) => mark.source === index).told.start_us;
      this.shiftTo(start(0) - start(1));
    },

    shiftBy(share) {
      const [, second] = this.sources;
      if (!second) return this.note("two runs that are compared can be aligned");
      return this.shiftTo(second.shift + share * FINE * (this.window[1] - this.window[0]));
    },

    listenToPair() {
      const on = (name, act) => {
        const button = this.graph.parentElement.querySelector(name);
        if (button) button.addEventListener("click", act);
      };
      on(".align-starts", () => this.alignStarts());
      on(".align-chosen", () => this.alignChosen());
    },
  };
})();
