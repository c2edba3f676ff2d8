// What a person makes of the devices: their order, which are pinned above the others and
// which are folded to one line. The page remembers it as long as its tab is open, for
// every run, as the devices of a program are the same in all its runs. These are methods
// of a timeline.

(function () {
  "use strict";

  const { inOrder } = window.placementTimeline;
  const KEY = "placement-rows";
  const rows = recall();

  function recall() {
    let known = null;
    try {
      known = JSON.parse(window.sessionStorage.getItem(KEY));
    } catch (error) {
      // A browser may keep nothing, and somebody may have written something else.
    }
    const texts = (name) => [].concat((known && known[name]) || []).filter((each) => typeof each === "string");
    return { order: texts("order"), pinned: texts("pinned"), folded: texts("folded") };
  }

  function remember() {
    try {
      window.sessionStorage.setItem(KEY, JSON.stringify(rows));
    } catch (error) {
      // Then it is known until the page is left.
    }
  }

  function toggle(list, device) {
    const at = list.indexOf(device);
    if (at < 0) list.push(device);
    else list.splice(at, 1);
    return at < 0;
  }

  window.placementTimeline.rows = {
    rows,

    rearrange() {
      remember();
      this.show();
    },

    // All devices from top to bottom, those of two runs once.
    devices() {
      const groups = this.meta.runs.flatMap((run) => run.groups);
      const found = inOrder(groups, rows).map((group) => group.device);
      return [...new Set(found)];
    },

    fold(device) {
      toggle(rows.folded, device);
      this.rearrange();
    },

    // The device of the chosen op, else all of them.
    foldChosen() {
      const mark = this.chosen[0];
      if (mark) {
        this.fold(this.bandOf(mark.source, mark.told.line).device);
        return;
      }
      const devices = this.devices();
      const isAll = devices.every((device) => rows.folded.includes(device));
      const others = rows.folded.filter((device) => !devices.includes(device));
      rows.folded = isAll ? others : others.concat(devices);
      this.rearrange();
    },

    pin(device) {
      const isPinned = toggle(rows.pinned, device);
      this.rearrange();
      this.note(`${this.nameOf(device)} ${isPinned ? "stays above the others" : "is no longer pinned"}`);
    },

    // Past the next device of its kind: a pinned one stays among the pinned.
    moveDevice(device, step) {
      const isPinned = rows.pinned.includes(device);
      const peers = this.devices().filter((each) => rows.pinned.includes(each) === isPinned);
      const other = peers[peers.indexOf(device) + step];
      if (other === undefined) {
        this.note(`${this.nameOf(device)} is the ${step < 0 ? "first" : "last"} already`);
        return;
      }
      const all = this.devices();
      const [from, to] = [all.indexOf(device), all.indexOf(other)];
      all.splice(to, 0, ...all.splice(from, 1));
      rows.order = all.concat(rows.order.filter((each) => !all.includes(each)));
      this.rearrange();
    },

    bandOf(run, line) {
      return this.places.bands.find((band) => band.run === run && line >= band.first && line <= band.last);
    },

    nameOf(device) {
      return this.places.bands.find((band) => band.device === device).name;
    },
  };
})();
