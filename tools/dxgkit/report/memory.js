// The memory map: one strip per segment, time across (the timeline's range), segment offset up.

const STRIP_HEIGHT = 150;
const STRIP_GAP = 24;

const CELLS = 64;    // of a strip, upwards
const COARSE = 2048;  // parts of the whole run

/**
 * For pictures of most of the run: how much of each cell of the whole run short stays cover (`cells`), which stays are longer than that shows
 * (`long`), and the latest end up to each stay (`latest`), to begin at the first that may be seen.
 */
function gatherStays(columns, rows, from, to, shown, duration) {
  const cells = new Float32Array(COARSE * CELLS);
  const latest = new Float64Array(rows.length);
  const long = [];
  const part = duration / COARSE;
  let end = -Infinity;
  for (let i = 0; i < rows.length; ++i) {
    end = Math.max(end, to[i]);
    latest[i] = end;
    if (to[i] - from[i] >= part / 2) {
      long.push(i);
      continue;
    }
    const column = Math.min(COARSE - 1, Math.floor(from[i] / part));
    const low = Math.floor(columns.offset[rows[i]] / shown * CELLS);
    const high = Math.min(CELLS - 1, Math.floor((columns.offset[rows[i]] + columns.size[rows[i]] - 1) / shown * CELLS));
    for (let cell = low; cell <= high; ++cell) cells[column * CELLS + cell] += (to[i] - from[i]) / part + 0.05;
  }
  return { cells, latest, long: Uint32Array.from(long) };
}

class MemoryMap {
  constructor(model, view, page) {
    this.page = page;
    this.model = model;
    this.view = view;
    this.canvas = document.getElementById('memory');
    this.strips = this.buildStrips();
    this.by_owner = model.owners.length > 1;
    this.button = document.getElementById('memory-colours');
    this.button.addEventListener('click', () => { this.by_owner = !this.by_owner; this.invalidate(); });
    document.getElementById('memory-panel').hidden = this.strips.length === 0;
    this.dirty = false;
    view.listeners.push(() => this.invalidate());
    theme.listeners.push(() => this.invalidate());
    window.addEventListener('resize', () => this.invalidate());
    this.listen();
    watchSight(this);
    this.invalidate();
  }

  buildStrips() {
    const strips = [];
    for (const [table, what] of [[this.model.placements, 'placed'], [this.model.aperture, 'mapped']]) {
      const { columns } = table;
      const segments = [...new Set(columns.segment || [])].sort((a, b) => a - b);
      for (const segment of segments) {
        if (segment === 0) continue;  // system memory has no map
        const rows = selectSorted(table.count, (i) => columns.segment[i] === segment, (i) => columns.from[i]);
        const known = Array.prototype.indexOf.call(this.model.segments.columns.segment || [], segment);
        let size = known < 0 ? 0 : this.model.segments.columns.size[known];
        let top = 0;
        for (const row of rows) top = Math.max(top, columns.offset[row] + columns.size[row]);
        const peak = known < 0 ? NaN : this.model.segments.columns.peak[known];
        // Of an aperture, far larger than what is mapped in it, only the part that is used is shown.
        const shown = what === 'mapped' || !(size > 0) || top < size / 4 ? Math.max(top, 1) : size;
        const from = Float64Array.from(rows, (row) => columns.from[row]);
        const to = Float64Array.from(rows, (row) => columns.to[row] === columns.to[row] ? columns.to[row] : this.model.duration);
        const owner = Float64Array.from(rows, (row) => this.model.owner(columns.allocation[row]));
        const evicted = Uint8Array.from(rows, (row) => this.model.wasEvicted(columns, row) ? 1 : 0);
        const title = what === 'mapped'
          ? `segment ${segment}, aperture: ${formatBytes(top)} of ${formatBytes(size)} used at most`
          : `segment ${segment}: ${formatBytes(size)}${peak === peak ? `, at most ${formatBytes(peak)} placed at once` : ''}${shown < size ? `; the first ${formatBytes(shown)} shown` : ''}`;
        const coarse = gatherStays(columns, rows, from, to, shown, this.model.duration);
        strips.push({ coarse, segment, what, title, rows, from, to, owner, evicted, columns, shown, y: strips.length * (STRIP_HEIGHT + STRIP_GAP) + 18 });
      }
    }
    return strips;
  }

  invalidate() {
    if (this.dirty || this.strips.length === 0) return;
    if (waitsForSight(this)) return;
    this.dirty = true;
    requestAnimationFrame(() => { this.dirty = false; this.draw(); });
  }

  draw() {
    const total = this.strips.length * (STRIP_HEIGHT + STRIP_GAP) + 10;
    const { context, width } = prepareCanvas(this.canvas, total);
    const plot = width - LABEL_WIDTH;
    const scale = plot / (this.view.to - this.view.from);
    context.textBaseline = 'middle';
    this.button.textContent = this.by_owner ? 'colours: owners' : 'colours: allocations';
    if (this.told !== this.by_owner) {
      this.told = this.by_owner;
      document.getElementById('owners').replaceChildren(...(this.by_owner ? this.model.owners.map((owner) => {
        const label = element('span');
        const colour = element('i');
        colour.style.background = this.model.ownerColour(owner);
        label.append(colour, this.model.ownerName(owner));
        return label;
      }) : []));
    }
    this.canvas.setAttribute('aria-label', `Memory over time: ${this.strips.map((strip) => strip.title).join('; ')}`);
    for (const strip of this.strips) {
      context.font = '11px system-ui, "DejaVu Sans", sans-serif';
      context.fillStyle = theme.ink;
      context.fillText(strip.title, LABEL_WIDTH, strip.y - 8);
      context.fillStyle = theme.soft;
      context.textAlign = 'right';
      context.fillText(formatBytes(strip.shown), LABEL_WIDTH - 8, strip.y + 6);
      context.fillText('0', LABEL_WIDTH - 8, strip.y + STRIP_HEIGHT - 6);
      context.textAlign = 'left';
      context.fillStyle = theme.strip;
      context.fillRect(LABEL_WIDTH, strip.y, plot, STRIP_HEIGHT);
      context.save();
      context.beginPath();
      context.rect(LABEL_WIDTH, strip.y, plot, STRIP_HEIGHT);
      context.clip();
      this.drawStrip(context, strip, plot, scale);
      context.restore();
    }
    drawMoment(context, this.page, this.view, LABEL_WIDTH, plot, 0, total);
  }

  drawStrip(context, strip, plot, scale) {
    const last = lowerBound(strip.from, this.view.to);
    const per_byte = STRIP_HEIGHT / strip.shown;
    // Stays thinner than a pixel are gathered in a grid of cells, so that their number does not matter.
    const cells = CELLS;
    const grid = new Float32Array(Math.ceil(plot) * cells);
    let gathered = false;
    // Of most of the run the short stays are gathered already.
    const coarse = (this.view.to - this.view.from) * COARSE >= this.view.duration * plot;
    if (coarse) gathered = this.addCoarse(strip.coarse.cells, grid, Math.ceil(plot));
    const begin = coarse ? 0 : upperBound(strip.coarse.latest, this.view.from);
    const count = coarse ? strip.coarse.long.length : last - begin;
    for (let n = 0; n < count; ++n) {
      const i = coarse ? strip.coarse.long[n] : begin + n;
      if (i >= last) break;
      if (strip.to[i] <= this.view.from) continue;
      const row = strip.rows[i];
      const left = Math.max(0, (strip.from[i] - this.view.from) * scale);
      const right = Math.min(plot, (strip.to[i] - this.view.from) * scale);
      const offset = strip.columns.offset[row];
      const size = strip.columns.size[row];
      if (right - left < 0.75) {
        const column = Math.min(Math.ceil(plot) - 1, Math.floor(left));
        const low = Math.floor(offset / strip.shown * cells);
        const high = Math.min(cells - 1, Math.floor((offset + size - 1) / strip.shown * cells));
        for (let cell = low; cell <= high; ++cell) grid[column * cells + cell] += right - left + 0.05;
        gathered = true;
        continue;
      }
      const height = Math.max(1, size * per_byte);
      const allocation = strip.columns.allocation[row];
      const top = strip.y + STRIP_HEIGHT - (offset + size) * per_byte;
      context.fillStyle = this.by_owner ? this.model.ownerColour(strip.owner[i]) : allocationColour(allocation);
      context.fillRect(LABEL_WIDTH + left, top, right - left > 3 ? right - left - 0.5 : right - left, height > 3 ? height - 0.5 : height);
      if (right - left > 4 && strip.to[i] <= this.view.to && strip.evicted[i]) {
        context.fillStyle = EVICTED_COLOUR;
        context.fillRect(LABEL_WIDTH + right - 1.5, top, 1.5, height);
      }
    }
    if (!gathered) return;
    const columns = Math.ceil(plot);
    if (!this.cells || this.cells.width !== columns) {
      this.cells = document.createElement('canvas');
      this.cells.width = columns;
      this.cells.height = cells;
    }
    const painter = this.cells.getContext('2d', { willReadFrequently: true });
    const image = painter.createImageData(columns, cells);
    const [red, green, blue] = rgbOf('#7286a0');
    for (let column = 0; column < columns; ++column) {
      for (let cell = 0; cell < cells; ++cell) {
        const covered = grid[column * cells + cell];
        if (covered === 0) continue;
        const at = 4 * ((cells - 1 - cell) * columns + column);
        image.data[at] = red;
        image.data[at + 1] = green;
        image.data[at + 2] = blue;
        image.data[at + 3] = 255 * Math.min(1, 0.25 + covered);
      }
    }
    painter.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.cells, LABEL_WIDTH, strip.y, columns, STRIP_HEIGHT);
  }

  /** Adds the gathered stays of the shown time to the grid. False: there are none. */
  addCoarse(cells, grid, columns) {
    const { from, to, duration } = this.view;
    const first = Math.max(0, Math.floor(from / duration * COARSE));
    const last = Math.min(COARSE, Math.ceil(to / duration * COARSE));
    let found = false;
    for (let part = first; part < last; ++part) {
      const column = Math.floor(((part + 0.5) / COARSE * duration - from) / (to - from) * columns);
      if (column < 0 || column >= columns) continue;
      for (let cell = 0; cell < CELLS; ++cell) {
        const covered = cells[part * CELLS + cell];
        if (covered === 0) continue;
        grid[column * CELLS + cell] += covered * columns / COARSE;
        found = true;
      }
    }
    return found;
  }

  hit(x, y) {
    const plot = this.canvas.clientWidth - LABEL_WIDTH;
    const time = this.view.from + (x - LABEL_WIDTH) / plot * (this.view.to - this.view.from);
    for (const strip of this.strips) {
      if (x < LABEL_WIDTH || y < strip.y || y >= strip.y + STRIP_HEIGHT) continue;
      const offset = (strip.y + STRIP_HEIGHT - y) / STRIP_HEIGHT * strip.shown;
      for (let i = lowerBound(strip.from, time) - 1; i >= 0; --i) {
        const row = strip.rows[i];
        if (strip.to[i] > time && strip.columns.offset[row] <= offset && offset < strip.columns.offset[row] + strip.columns.size[row]) return { strip, index: i };
      }
    }
    return null;
  }

  listen() {
    const tip = document.getElementById('tip');
    this.canvas.addEventListener('pointermove', (event) => {
      const found = this.hit(event.offsetX, event.offsetY);
      tip.hidden = !found;
      if (!found) return;
      const { strip, index } = found;
      const { columns } = strip;
      const row = strip.rows[index];
      tip.textContent = `allocation ${numberOfId(columns.allocation[row])}, ${formatBytes(columns.size[row])}, of ${this.model.ownerName(this.model.owner(columns.allocation[row]))}\nat offset 0x${columns.offset[row].toString(16)} of segment ${strip.segment}\n${strip.what} for ${formatTime(strip.to[index] - strip.from[index])}${this.model.wasEvicted(columns, row) ? ", then evicted" : ""}`;
      tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 260)}px`;
      tip.style.top = `${event.clientY + 16}px`;
    });
    this.canvas.addEventListener('click', (event) => {
      const found = this.hit(event.offsetX, event.offsetY);
      if (found) this.page.details.showAllocation(found.strip.columns.allocation[found.strip.rows[found.index]]);
    });
    this.canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
    wheelOnTime(this.canvas, this.view);
  }
}
