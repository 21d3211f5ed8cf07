// What the views share: the shown time, the selected packet, the cursor, the address that leads back here.

const ADDRESS_AFTER_MS = 150;

class Page {
  constructor(model) {
    this.model = model;
    this.view = new View(model.duration);
    this.causes = new Causes(model);
    this.addresses = new Addresses(model);
    this.cursor = NaN;
    this.range = null;  // [from, to] that is measured
    this.timeline = new Timeline(this);
    this.filters = new Filters(this);
    this.memory_map = new MemoryMap(model, this.view, this);
    this.residency = new ResidencyLanes(model, this.view);
    this.budgets = new BudgetCharts(model, this.view);
    this.details = new Details(this);
    this.tables = new Tables(this);
    this.frames = new Frames(model, (time) => { this.centre(time); this.setCursor(time); });
    this.search = new Search(this);
    this.view.listeners.push(() => { this.remember(); this.time(); });
    window.addEventListener('hashchange', () => { if (location.hash !== this.address) this.follow(); });
    this.follow();
  }

  invalidate() {
    this.timeline.invalidate();
    this.memory_map.invalidate();
    if (this.other_lanes) this.other_lanes.invalidate();
  }

  /** Selects a packet (-1: none), brings it into view and tells its life. */
  select(row, reveal = true) {
    this.timeline.selected = row;
    if (row >= 0 && reveal) this.timeline.reveal(row);
    this.details.showPacket(row);
    this.tables.refresh();
    this.invalidate();
    this.remember();
  }

  /** The moment whose state the pane shows; NaN: none. It comes into view. */
  setCursor(time) {
    this.cursor = time;
    if (time === time) {
      if (time < this.view.from || time > this.view.to) this.centre(time);
      this.details.showMoment(time);
    }
    this.invalidate();
    this.remember();
  }

  /** How long it takes from a change of the view until its picture is there: last_zoom_ms. */
  time() {
    if (this.timing) return;
    this.timing = true;
    const began = performance.now();
    nextPicture().then(() => { this.timing = false; this.last_zoom_ms = performance.now() - began; });
  }

  measure(from, to) {
    this.range = from === to ? null : [Math.min(from, to), Math.max(from, to)];
    if (this.range) this.details.showRange(...this.range);
    this.invalidate();
  }

  centre(time) {
    const half = (this.view.to - this.view.from) / 2;
    this.view.set(time - half, time + half);
  }

  /** Nothing selected, no cursor, no range. */
  letGo() {
    this.cursor = NaN;
    this.range = null;
    this.select(-1);
  }

  /** Puts what is shown into the page's address, so that it can be handed on; once it is at rest, because that takes time. */
  remember() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => {
      const parts = [];
      const { from, to, duration } = this.view;
      if (from > 0 || to < duration) parts.push(`from=${Math.round(from)}`, `to=${Math.round(to)}`);
      if (this.cursor === this.cursor) parts.push(`at=${Math.round(this.cursor)}`);
      if (this.timeline.selected >= 0) parts.push(`packet=${packetNumber(this.model, this.timeline.selected)}`);
      this.address = parts.length === 0 ? '' : `#${parts.join('&')}`;
      history.replaceState(null, '', this.address === '' ? location.pathname + location.search : this.address);
    }, ADDRESS_AFTER_MS);
  }

  /** Goes where the address says: from=NS, to=NS, at=NS, packet=NUMBER. */
  follow() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const number = (name) => wanted.has(name) && wanted.get(name) !== '' ? Number(wanted.get(name)) : NaN;
    const packet = this.model.rowOfNumber(number('packet'));
    if (packet >= 0) this.select(packet);
    if (number('at') === number('at')) this.setCursor(number('at'));
    if (number('to') > number('from')) this.view.set(number('from'), number('to'));
  }
}
