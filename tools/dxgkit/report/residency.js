// Which allocations were in memory when, one lane each, and what each process had there against its budget.

const LANE_HEIGHT = 16;
const LANES_MOST = 400;
const CHART_HEIGHT = 90;
const CHART_GAP = 26;

class ResidencyLanes {
  constructor(model, view) {
    this.model = model;
    this.view = view;
    this.canvas = document.getElementById('residency');
    this.lanes = this.buildLanes();
    document.getElementById('residency-panel').hidden = this.lanes.length === 0;
    document.getElementById('residency-note').textContent = this.total > this.lanes.length ? `the ${this.lanes.length} that moved most of ${this.total}` : '';
    this.canvas.setAttribute('aria-label', this.describe());
    wheelOnTime(this.canvas, view);
    watchSight(this);
    this.dirty = false;
    view.listeners.push(() => this.invalidate());
    theme.listeners.push(() => this.invalidate());
    window.addEventListener('resize', () => this.invalidate());
    this.invalidate();
  }

  buildLanes() {
    const lanes = new Map();
    for (const [table, mapped] of [[this.model.placements, false], [this.model.aperture, true]]) {
      const { columns } = table;
      for (let row = 0; row < table.count; ++row) {
        if (columns.segment[row] === 0) continue;
        const id = columns.allocation[row];
        if (!lanes.has(id)) lanes.set(id, { id, stays: [], evictions: 0, moved: 0 });
        const lane = lanes.get(id);
        const evicted = !mapped && this.model.wasEvicted(columns, row);
        lane.stays.push({ from: columns.from[row], to: columns.to[row] === columns.to[row] ? columns.to[row] : this.model.duration, segment: columns.segment[row], evicted });
        lane.size = columns.size[row];
        if (evicted) ++lane.evictions;
        lane.moved += columns.size[row];
      }
    }
    this.total = lanes.size;
    for (const lane of lanes.values()) lane.stays.sort((a, b) => a.from - b.from);
    // Whom memory pressure hit most comes first.
    return [...lanes.values()].sort((a, b) => b.evictions - a.evictions || b.moved - a.moved || a.id - b.id).slice(0, LANES_MOST);
  }

  describe() {
    return `Residency of ${this.lanes.length} allocations; evicted most: ${this.lanes.slice(0, 3).map((lane) => `allocation ${numberOfId(lane.id)}, ${lane.evictions} times`).join('; ')}`;
  }

  invalidate() {
    if (this.dirty || this.lanes.length === 0 || waitsForSight(this)) return;
    this.dirty = true;
    requestAnimationFrame(() => { this.dirty = false; this.draw(); });
  }

  draw() {
    const { context, width } = prepareCanvas(this.canvas, this.lanes.length * LANE_HEIGHT + 4);
    const plot = width - LABEL_WIDTH;
    const scale = plot / (this.view.to - this.view.from);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    this.lanes.forEach((lane, index) => {
      const y = index * LANE_HEIGHT + 2;
      const owner = this.model.owner(lane.id);
      context.fillStyle = index % 2 ? theme.stripe : theme.strip;
      context.fillRect(LABEL_WIDTH, y, plot, LANE_HEIGHT - 1);
      context.save();
      context.beginPath();
      context.rect(0, y, LABEL_WIDTH - 4, LANE_HEIGHT);
      context.clip();
      context.fillStyle = theme.ink;
      context.fillText(`${numberOfId(lane.id)}: ${formatBytes(lane.size)}${lane.evictions ? `, ${lane.evictions}×` : ''}`, 4, y + LANE_HEIGHT / 2);
      context.restore();
      for (const stay of lane.stays) {
        if (stay.to <= this.view.from || stay.from >= this.view.to) continue;
        const left = LABEL_WIDTH + Math.max(0, (stay.from - this.view.from) * scale);
        const right = LABEL_WIDTH + Math.min(plot, (stay.to - this.view.from) * scale);
        context.fillStyle = this.model.ownerColour(owner);
        context.fillRect(left, y + 2, Math.max(0.5, right - left), LANE_HEIGHT - 5);
        if (right - left > 70) {
          context.fillStyle = '#ffffff';
          context.fillText(`segment ${stay.segment}`, left + 4, y + LANE_HEIGHT / 2);
        }
        if (stay.evicted && stay.to <= this.view.to) {
          context.fillStyle = EVICTED_COLOUR;
          context.fillRect(right - 1.5, y, 2, LANE_HEIGHT - 1);
        }
      }
    });
  }
}

/** Steps of one quantity over time: value(i) holds from time(i) on. */
class Steps {
  constructor() { this.times = []; this.values = []; }
  add(time, value) {
    if (this.times.length > 0 && this.times[this.times.length - 1] === time) this.values[this.values.length - 1] = value;
    else { this.times.push(time); this.values.push(value); }
  }
  most() { return this.values.reduce((most, value) => Math.max(most, value), 0); }
}

const GROUPS = ['local', 'non-local'];

class BudgetCharts {
  constructor(model, view) {
    this.model = model;
    this.view = view;
    this.canvas = document.getElementById('budget');
    this.charts = this.buildCharts();
    document.getElementById('budget-panel').hidden = this.charts.length === 0;
    this.canvas.setAttribute('aria-label', this.describe());
    wheelOnTime(this.canvas, view);
    watchSight(this);
    this.dirty = false;
    view.listeners.push(() => this.invalidate());
    theme.listeners.push(() => this.invalidate());
    window.addEventListener('resize', () => this.invalidate());
    this.invalidate();
  }

  buildCharts() {
    const charts = [];
    const { time, process, group, budget, usage } = this.model.budgets.columns;
    const by_key = new Map();
    for (let row = 0; row < this.model.budgets.count; ++row) {
      const key = `${process[row]} ${group[row]}`;
      if (!by_key.has(key)) {
        by_key.set(key, { owner: process[row], title: `${this.model.ownerName(process[row])}, ${GROUPS[group[row]] || `group ${group[row]}`}`, usage: new Steps(), budget: new Steps() });
      }
      const chart = by_key.get(key);
      chart.usage.add(time[row], usage[row]);
      chart.budget.add(time[row], budget[row]);
    }
    const told = new Set([...by_key.values()].map((chart) => chart.owner));
    charts.push(...by_key.values());
    // Processes without a budget: what they had in segments.
    for (const owner of this.model.owners) {
      if (told.has(owner)) continue;
      const changes = [];
      const { columns } = this.model.placements;
      for (let row = 0; row < this.model.placements.count; ++row) {
        if (columns.segment[row] === 0 || this.model.owner(columns.allocation[row]) !== owner) continue;
        changes.push([columns.from[row], columns.size[row]]);
        if (columns.to[row] === columns.to[row]) changes.push([columns.to[row], -columns.size[row]]);
      }
      if (changes.length === 0) continue;
      changes.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
      const chart = { owner, title: `${this.model.ownerName(owner)}, memory segments; no budget`, usage: new Steps(), budget: null };
      let bytes = 0;
      for (const [at, change] of changes) chart.usage.add(at, bytes += change);
      charts.push(chart);
    }
    charts.forEach((chart, index) => {
      chart.y = index * (CHART_HEIGHT + CHART_GAP) + 20;
      chart.most = chart.usage.most();
      chart.top = Math.max(1, chart.most, chart.budget ? chart.budget.most() : 0);
      chart.over = chart.budget !== null && chart.usage.values.some((value, i) => value > chart.budget.values[i]);
    });
    return charts;
  }

  describe() {
    return `Budget against usage: ${this.charts.map((chart) => `${chart.title}: at most ${formatBytes(chart.most)}`).join('; ')}`;
  }

  invalidate() {
    if (this.dirty || this.charts.length === 0 || waitsForSight(this)) return;
    this.dirty = true;
    requestAnimationFrame(() => { this.dirty = false; this.draw(); });
  }

  /** The corners of `steps` inside the view, in pixels of a chart. */
  path(context, chart, steps, plot, scale) {
    const yOf = (value) => chart.y + CHART_HEIGHT - value / chart.top * CHART_HEIGHT;
    const first = Math.max(0, upperBound(steps.times, this.view.from) - 1);
    let y = yOf(0);
    let x = LABEL_WIDTH;
    let begun = false;
    for (let i = first; i < steps.times.length && steps.times[i] < this.view.to; ++i) {
      x = LABEL_WIDTH + Math.max(0, (steps.times[i] - this.view.from) * scale);
      if (!begun) { context.moveTo(x, y); begun = true; } else context.lineTo(x, y);
      y = yOf(steps.values[i]);
      context.lineTo(x, y);
      // Of steps thinner than half a pixel the highest is drawn.
      let most = steps.values[i];
      while (i + 1 < steps.times.length && steps.times[i + 1] < this.view.to && (steps.times[i + 1] - this.view.from) * scale + LABEL_WIDTH < x + 0.5) most = Math.max(most, steps.values[++i]);
      if (most !== steps.values[i] || yOf(most) !== y) {
        context.lineTo(x, yOf(most));
        y = yOf(steps.values[i]);
        context.lineTo(x, y);
      }
    }
    if (begun) context.lineTo(LABEL_WIDTH + plot, y);
    return begun;
  }

  draw() {
    const { context, width } = prepareCanvas(this.canvas, this.charts.length * (CHART_HEIGHT + CHART_GAP) + 6);
    const plot = width - LABEL_WIDTH;
    const scale = plot / (this.view.to - this.view.from);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    for (const chart of this.charts) {
      context.fillStyle = theme.ink;
      context.fillText(`${chart.title}: at most ${formatBytes(chart.most)}${chart.budget ? ` of a budget of ${formatBytes(chart.budget.values[chart.budget.values.length - 1])}${chart.over ? '; was over it' : ''}` : ''}`, LABEL_WIDTH, chart.y - 10);
      context.fillStyle = theme.soft;
      context.textAlign = 'right';
      context.fillText(formatBytes(chart.top), LABEL_WIDTH - 8, chart.y + 6);
      context.fillText('0', LABEL_WIDTH - 8, chart.y + CHART_HEIGHT - 6);
      context.textAlign = 'left';
      context.fillStyle = theme.strip;
      context.fillRect(LABEL_WIDTH, chart.y, plot, CHART_HEIGHT);
      context.save();
      context.beginPath();
      context.rect(LABEL_WIDTH, chart.y - 1, plot, CHART_HEIGHT + 2);
      context.clip();
      context.beginPath();
      if (this.path(context, chart, chart.usage, plot, scale)) {
        context.lineTo(LABEL_WIDTH + plot, chart.y + CHART_HEIGHT);
        context.closePath();
        context.fillStyle = this.model.ownerColour(chart.owner);
        context.globalAlpha = 0.65;
        context.fill();
        context.globalAlpha = 1;
      }
      if (chart.budget) {
        context.beginPath();
        if (this.path(context, chart, chart.budget, plot, scale)) {
          context.strokeStyle = EVICTED_COLOUR;
          context.lineWidth = 1.5;
          context.stroke();
        }
      }
      context.restore();
    }
  }
}
