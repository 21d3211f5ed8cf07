// The timeline: what part of time is shown, drawing of lanes, mouse and keyboard.

const LABEL_WIDTH = 148;
const SHORTEST_VIEW_NS = 20;

class View {
  constructor(duration) {
    this.duration = duration;
    this.from = 0;
    this.to = duration;
    this.listeners = [];
  }

  set(from, to) {
    if (!Number.isFinite(from) || !Number.isFinite(to)) return;
    const length = Math.min(Math.max(to - from, SHORTEST_VIEW_NS), this.duration * 1.02);
    const margin = this.duration * 0.01;
    from = Math.min(Math.max(from, -margin), this.duration + margin - length);
    this.from = from;
    this.to = from + length;
    for (const listener of this.listeners) listener();
  }

  /** factor < 1 zooms in; `centre` keeps its place on screen. */
  zoom(factor, centre) {
    const length = Math.min(Math.max((this.to - this.from) * factor, SHORTEST_VIEW_NS), this.duration * 1.02);
    const part = (centre - this.from) / (this.to - this.from);
    this.set(centre - part * length, centre + (1 - part) * length);
  }

  pan(distance) { this.set(this.from + distance, this.to + distance); }
  all() { this.set(0, this.duration); }
}

/** Has `drawer` draw its canvas only while that is on screen or near it: what nobody sees costs nothing. */
const sight = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    entry.target.seen = entry.isIntersecting;
    if (entry.isIntersecting && entry.target.stale) entry.target.drawer.invalidate();
  }
}, { rootMargin: '100px' });
function watchSight(drawer) {
  drawer.canvas.drawer = drawer;
  drawer.canvas.seen = true;
  sight.observe(drawer.canvas);
}
/** For invalidate: true if the drawing can wait until the canvas is seen. */
function waitsForSight(drawer) {
  drawer.canvas.stale = !drawer.canvas.seen;
  return drawer.canvas.stale;
}

const takesText = (target) => target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);

/** With Ctrl the wheel zooms where the pointer is, with Shift it pans; alone it scrolls the page, as everywhere. */
function wheelOnTime(canvas, view) {
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
    event.preventDefault();
    const plot = Math.max(10, canvas.clientWidth - LABEL_WIDTH);
    const length = view.to - view.from;
    if (event.shiftKey) {
      view.pan((event.deltaX || event.deltaY) / plot * length);
    } else {
      view.zoom(Math.exp(Math.max(-240, Math.min(240, event.deltaY)) * 0.0022), view.from + Math.max(0, event.offsetX - LABEL_WIDTH) / plot * length);
    }
  }, { passive: false });
}

/** The cursor and the measured range, over whatever shares the timeline's axis. */
function drawMoment(context, page, view, x0, plot, top, bottom) {
  const scale = plot / (view.to - view.from);
  const xOf = (time) => x0 + Math.min(plot, Math.max(0, (time - view.from) * scale));
  if (page.range) {
    context.fillStyle = theme.cursor;
    context.globalAlpha = 0.18;
    context.fillRect(xOf(page.range[0]), top, Math.max(1, xOf(page.range[1]) - xOf(page.range[0])), bottom - top);
    context.globalAlpha = 1;
  }
  if (page.cursor >= view.from && page.cursor <= view.to) {
    context.fillStyle = theme.cursor;
    context.fillRect(xOf(page.cursor) - 0.75, top, 1.5, bottom - top);
  }
}

class Timeline {
  constructor(page) {
    const { model, view } = page;
    this.page = page;
    this.model = model;
    this.view = view;
    this.canvas = document.getElementById('lanes');
    this.axis = document.getElementById('axis');
    this.overview = document.getElementById('overview');
    this.scroll = document.getElementById('lanes-scroll');
    this.selected = -1;
    this.dirty = false;
    this.hidden_groups = new Set();
    this.only = NaN;  // the process whose packets are not dimmed; NaN: all
    this.rebuild();
    view.listeners.push(() => this.invalidate());
    theme.listeners.push(() => this.invalidate());
    this.scroll.addEventListener('scroll', () => this.invalidate());
    window.addEventListener('resize', () => this.invalidate());
    this.listen();
    this.invalidate();
  }

  /** The lanes anew: more tables have come, or other groups are to be shown. */
  rebuild() {
    const built = buildLanes(this.page, this.hidden_groups);
    this.lanes = built.lanes;
    this.groups = built.groups;
    this.height = built.height;
    this.invalidate();
  }

  get plot_width() { return Math.max(10, this.canvas.clientWidth - LABEL_WIDTH); }
  timeAt(x) { return this.view.from + (x - LABEL_WIDTH) / this.plot_width * (this.view.to - this.view.from); }
  xOf(time) { return LABEL_WIDTH + (time - this.view.from) / (this.view.to - this.view.from) * this.plot_width; }

  invalidate() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => { this.dirty = false; this.draw(); });
  }

  draw() {
    const started = performance.now();
    this.last_boxes = 0;  // that were drawn: bounded by the pixels, not by the recording
    this.drawOverview();
    this.drawAxis();
    this.drawLanes();
    const shown = `${formatTime(this.view.to - this.view.from)} shown`;
    document.getElementById('view-range').textContent = shown;
    this.canvas.setAttribute('aria-label', `Timeline: ${this.lanes.length} lanes, from ${formatTime(this.view.from)} to ${formatTime(this.view.to)}${this.selected < 0 ? '' : `, packet ${packetNumber(this.model, this.selected)} selected`}`);
    this.last_draw_ms = performance.now() - started;
    this.draws = (this.draws || 0) + 1;
  }

  ticks() {
    const raw = (this.view.to - this.view.from) / Math.max(2, this.plot_width / 110);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const times = [];
    for (let i = Math.ceil(this.view.from / step); i * step <= this.view.to; ++i) times.push(i * step);
    return { step, times };
  }

  drawAxis() {
    const { context, height } = prepareCanvas(this.axis, 24);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    context.fillStyle = theme.soft;
    const { step, times } = this.ticks();
    for (const time of times) {
      const x = this.xOf(time);
      if (x < LABEL_WIDTH) continue;
      context.fillRect(x, height - 5, 1, 5);
      context.fillText(formatTick(time, step), x + 4, height / 2);
    }
  }

  /** The whole recording in one strip: how busy the nodes are, with the shown part marked. */
  drawOverview() {
    const { context, width, height } = prepareCanvas(this.overview, 34);
    const whole = { from: 0, to: this.view.duration };
    const rows = this.model.overview;
    const strip = (height - 10) / Math.max(1, rows.length);
    const plot = width - LABEL_WIDTH;
    context.fillStyle = theme.strip;
    context.fillRect(LABEL_WIDTH, 4, plot, height - 8);
    rows.forEach(({ row }, index) => row.draw(context, whole, LABEL_WIDTH, plot, 5 + index * strip, strip - 1, PALETTE[index % PALETTE.length]));
    const left = LABEL_WIDTH + Math.max(0, this.view.from) / this.view.duration * plot;
    const right = LABEL_WIDTH + Math.min(this.view.duration, this.view.to) / this.view.duration * plot;
    context.fillStyle = theme.veil;
    context.fillRect(LABEL_WIDTH, 4, left - LABEL_WIDTH, height - 8);
    context.fillRect(right, 4, width - right, height - 8);
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left, 3, Math.max(3, right - left), height - 6);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    context.fillStyle = theme.soft;
    context.fillText('whole run', 12, height / 2);
  }

  drawLanes() {
    const { context, width } = prepareCanvas(this.canvas, Math.max(this.height, 40));
    const plot = this.plot_width;
    const top = this.scroll.scrollTop - 30;
    const bottom = this.scroll.scrollTop + this.scroll.clientHeight + 30;
    context.textBaseline = 'middle';
    context.strokeStyle = theme.strip;
    for (const time of this.ticks().times) {
      const x = Math.round(this.xOf(time)) + 0.5;
      if (x < LABEL_WIDTH) continue;
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, bottom);
      context.stroke();
    }
    for (const lane of this.lanes) {
      if (lane.y + lane.height < top || lane.y - 20 > bottom) continue;
      if (lane.new_group) {
        context.fillStyle = theme.stripe;
        context.fillRect(0, lane.y - 18, width, 15);
        context.fillStyle = theme.ink;
        context.font = '600 11px system-ui, "DejaVu Sans", sans-serif';
        context.fillText(lane.group, 10, lane.y - 10);
      }
      context.font = '11px system-ui, "DejaVu Sans", sans-serif';
      context.fillStyle = theme.soft;
      context.fillText(lane.title, 20, lane.y + Math.min(lane.height / 2, 8), LABEL_WIDTH - 24);
      if (lane.hidden > 0) context.fillText(`+${formatCount(lane.hidden)} not drawn`, 20, lane.y + 22, LABEL_WIDTH - 24);
      context.font = '10px system-ui, "DejaVu Sans", sans-serif';
      lane.rows.forEach((row, index) => {
        const y = lane.y + index * (lane.row_height + 1);
        this.last_boxes += row.draw(context, this.view, LABEL_WIDTH, plot, y, lane.row_height, lane.colour, lane.label);
      });
      this.drawSelected(context, lane);
    }
    drawMoment(context, this.page, this.view, LABEL_WIDTH, plot, top, bottom);
  }

  drawSelected(context, lane) {
    if (this.selected < 0) return;
    context.strokeStyle = theme.mark;
    context.lineWidth = 1.6;
    for (const { row, index } of this.marks(lane)) {
      const left = Math.max(LABEL_WIDTH, this.xOf(lane.rows[row].starts[index]));
      const right = this.xOf(lane.rows[row].ends[index]);
      if (right < LABEL_WIDTH || left > LABEL_WIDTH + this.plot_width) continue;
      context.strokeRect(left - 0.5, lane.y + row * (lane.row_height + 1) - 0.5, Math.max(3, right - left), lane.row_height + 1);
    }
  }

  /** Boxes of the selected packet in a lane; looked up once per selection. */
  marks(lane) {
    if (lane.marked_for === this.selected) return lane.marked;
    lane.marked = [];
    lane.marked_for = this.selected;
    lane.rows.forEach((row, number) => {
      if (!row.starts) return;
      for (let index = 0; index < row.items.length; ++index) {
        if (lane.packet(row.items[index]) === this.selected) lane.marked.push({ row: number, index });
      }
    });
    return lane.marked;
  }

  /** What is under a point of the lanes canvas: {lane, item} or null. */
  hit(x, y) {
    if (x < LABEL_WIDTH) return null;
    const time = this.timeAt(x);
    const slack = 4 / this.plot_width * (this.view.to - this.view.from);
    for (const lane of this.lanes) {
      if (y < lane.y - 1 || y >= lane.y + lane.height + 1) continue;
      const number = Math.min(lane.rows.length - 1, Math.max(0, Math.floor((y - lane.y) / (lane.row_height + 1))));
      const row = lane.rows[number];
      const index = row ? row.find(time, slack) : -1;
      return index < 0 ? null : { lane, item: row.items[index] };
    }
    return null;
  }

  /** Brings a packet into view, with some of its neighbourhood. */
  reveal(packet_row) {
    const columns = this.model.packets.columns;
    const times = ['queued', 'ready', 'patched', 'submitted', 'hw_start', 'hw_end', 'ended'].map((name) => columns[name][packet_row]).filter((t) => t === t);
    if (times.length === 0) return;
    const from = Math.min(...times);
    const to = Math.max(...times);
    if (from < this.view.from || to > this.view.to || to - from < (this.view.to - this.view.from) / 400) {
      const margin = Math.max(to - from, 500);
      this.view.set(from - margin, to + margin);
    }
  }

  /** The next or previous packet in submission order, from the selected one. */
  step(direction) {
    const { count } = this.model.packets;
    if (count === 0) return;
    const next = this.selected < 0 ? 0 : Math.min(count - 1, Math.max(0, this.selected + direction));
    this.page.select(next);
  }

  listen() {
    const tip = document.getElementById('tip');
    let drag = null;
    wheelOnTime(this.canvas, this.view);
    wheelOnTime(this.overview, this.view);
    this.canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      this.canvas.setPointerCapture(event.pointerId);
      this.canvas.focus({ preventScroll: true });
      drag = { x: event.clientX, y: event.clientY, from: this.view.from, to: this.view.to, top: this.scroll.scrollTop, moved: false, measures: event.shiftKey, from_time: this.timeAt(Math.max(LABEL_WIDTH, event.offsetX)) };
    });
    this.canvas.addEventListener('pointermove', (event) => {
      if (drag) {
        const dx = event.clientX - drag.x;
        const dy = event.clientY - drag.y;
        if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
        drag.moved = true;
        if (drag.measures) {
          this.page.measure(drag.from_time, this.timeAt(Math.max(LABEL_WIDTH, event.offsetX)));
          return;
        }
        this.canvas.classList.add('dragging');
        tip.hidden = true;
        const shift = -dx / this.plot_width * (drag.to - drag.from);
        this.view.set(drag.from + shift, drag.to + shift);
        this.scroll.scrollTop = drag.top - dy;
        return;
      }
      const found = this.hit(event.offsetX, event.offsetY);
      tip.hidden = !found;
      if (found) {
        tip.textContent = found.lane.describe(found.item);
        tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 260)}px`;
        tip.style.top = `${event.clientY + 16}px`;
      }
    });
    const finish = (event) => {
      if (drag && drag.measures && drag.moved) drag = null;
      if (drag && !drag.moved && event.type === 'pointerup') {
        const found = this.hit(event.offsetX, event.offsetY);
        if (found && found.lane.open) found.lane.open(found.item);
        else this.page.select(found ? found.lane.packet(found.item) : -1, false);
      }
      drag = null;
      this.canvas.classList.remove('dragging');
    };
    this.canvas.addEventListener('pointerup', finish);
    this.canvas.addEventListener('pointercancel', finish);
    this.canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
    this.canvas.addEventListener('dblclick', (event) => this.view.zoom(0.4, this.timeAt(event.offsetX)));

    this.axis.addEventListener('click', (event) => { if (event.offsetX >= LABEL_WIDTH) this.page.setCursor(this.timeAt(event.offsetX)); });
    const centreAt = (event) => {
      const part = (event.offsetX - LABEL_WIDTH) / Math.max(1, this.overview.clientWidth - LABEL_WIDTH);
      const half = (this.view.to - this.view.from) / 2;
      this.view.set(part * this.view.duration - half, part * this.view.duration + half);
    };
    this.overview.addEventListener('pointerdown', (event) => { this.overview.setPointerCapture(event.pointerId); centreAt(event); });
    this.overview.addEventListener('pointermove', (event) => { if (event.buttons & 1) centreAt(event); });

    const middle = () => (this.view.from + this.view.to) / 2;
    const length = () => this.view.to - this.view.from;
    document.getElementById('zoom-in').addEventListener('click', () => this.view.zoom(0.5, middle()));
    document.getElementById('zoom-out').addEventListener('click', () => this.view.zoom(2, middle()));
    document.getElementById('zoom-all').addEventListener('click', () => this.view.all());
    // Keys for everywhere but fields that take text; those that would scroll the page only where the timeline has the focus.
    const anywhere = {
      '+': () => this.view.zoom(0.5, middle()),
      '=': () => this.view.zoom(0.5, middle()),
      '-': () => this.view.zoom(2, middle()),
      '0': () => this.view.all(),
      'n': () => this.step(1),
      'p': () => this.step(-1),
      'Escape': () => this.page.letGo(),
      'c': () => this.page.setCursor(middle()),
    };
    const focused = {
      'ArrowLeft': () => this.view.pan(-length() * 0.2),
      'ArrowRight': () => this.view.pan(length() * 0.2),
      'Home': () => this.view.pan(-this.view.from),
      'End': () => this.view.pan(this.view.duration - this.view.to),
    };
    document.addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || takesText(event.target)) return;
      const key = anywhere[event.key] || (event.target === this.canvas && focused[event.key]);
      if (!key) return;
      event.preventDefault();
      key();
    });
  }
}
