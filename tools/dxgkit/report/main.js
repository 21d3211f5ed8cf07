// Puts the page together.

startTheme();

const model = readModel(JSON.parse(document.getElementById('report-data').textContent), JSON.parse(document.getElementById('run-data').textContent));
const view = new View(model.duration);
let tables = null;
const timeline = new Timeline(model, view, (row) => { showDetails(model, row); if (tables) tables.refresh(); });
const memory_map = new MemoryMap(model, view);
const residency = new ResidencyLanes(model, view);
const budgets = new BudgetCharts(model, view);
tables = new Tables(model, timeline);
const frames = new Frames(model, (time) => tables.centre(time));
showDetails(model, -1);

const facts = document.getElementById('facts');
function fact(name, value, class_name) {
  const box = element('span', undefined, class_name);
  box.append(`${name} `, element('b', value));
  facts.append(box);
}
if (model.run && model.run.result) fact('result', model.run.result, /^(identical|exit code 0$)/.test(model.run.result) ? 'good' : 'bad');
if (model.run && model.run.driver) fact('driver', model.run.driver);
fact('time', formatTime(model.duration));
fact('packets', formatCount(model.packets.count));
fact('findings', formatCount(model.findings.count), model.findings.count > 0 ? 'bad' : 'good');
if (model.dropped > 0) fact('events lost', formatCount(Number(model.dropped)), 'bad');

// What tests and the curious may look at.
window.dxgkit = { model, view, timeline, memory_map, residency, budgets, frames, tables };
