// Ops by a part of their name or type: in one run, or in two one after the other.
// Methods of a timeline.

(function () {
  "use strict";

  window.placementTimeline.search = {
    async search(text) {
      if (!text) {
        this.found = null;
        return;
      }
      const { sources } = this;
      const answers = await Promise.all(sources.map((source) => source.ask("search", { for: text })));
      // Another run may be shown by then.
      if (sources !== this.sources || !answers.every(Boolean)) return;
      const wrong = answers.find((found) => found.error);
      if (wrong) return this.note(wrong.error);
      const ops = answers.flatMap((found, index) => found.ops.map((op) => [op, index]));
      const total = answers.reduce((sum, found) => sum + found.total, 0);
      this.found = { ops, total, at: -1 };
      if (!total) return this.note("nothing found");
      this.stepFound(1);
    },

    stepFound(step) {
      if (!this.found || !this.found.ops.length) return this.note("search with / first");
      const { ops, total } = this.found;
      this.found.at = (this.found.at + step + ops.length) % ops.length;
      const [op, index] = ops[this.found.at];
      const where = this.sources.length > 1 ? ["before", "after"][index] : "";
      this.note(`${this.found.at + 1} of ${total.toLocaleString("en")} found${where && ", " + where}`);
      this.choose(op, index);
      this.onChoose(op, index);
    },

    openSearch() {
      // Selected, so that what is typed takes the place of what was searched before.
      this.searchBox.select();
    },

    listenToSearch() {
      this.searchBox.addEventListener("keydown", (event) => {
        if (event.key === "Enter") this.search(this.searchBox.value);
        if (event.key === "Enter" || event.key === "Escape") this.graph.focus();
      });
    },
  };
})();
