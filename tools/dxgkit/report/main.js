// Puts the page together: what the first picture needs, the picture, then the calls of threads, which are most of a recording.

startTheme();
const jsonOf = (id) => JSON.parse(document.getElementById(id).textContent);

function showFacts(model) {
  const facts = document.getElementById('facts');
  const fact = (name, value, class_name) => {
    const box = element('span', undefined, class_name);
    box.append(`${name} `, element('b', value));
    facts.append(box);
  };
  const { run } = model;
  if (run && run.name) fact('trace', run.name);
  if (run && run.result) fact('result', run.result, /^(identical|exit code 0$)/.test(run.result) ? 'good' : 'bad');
  if (run && run.driver) fact('driver', run.driver);
  fact('time', formatTime(model.duration));
  fact('packets', formatCount(model.packets.count));
  const counted = model.told_findings.filter((one) => !(one.told && (one.told.provoked || one.told.waived))).length;
  fact('findings', formatCount(counted), counted > 0 ? 'bad' : 'good');
  if (model.dropped > 0) fact('events lost', formatCount(Number(model.dropped)), 'bad');
}

/** Before anything is read: the whole run, and how busy each engine was. */
function drawFirstPicture(head) {
  const duration = Math.max(1, Number(head.duration_ns));
  const whole = { from: 0, to: duration };
  document.getElementById('loading').textContent = `reading ${formatCount(Number(head.events))} events ...`;
  document.getElementById('view-range').textContent = `${formatTime(duration)} shown`;
  const rows = readOverview(head);
  const { context, width } = prepareCanvas(document.getElementById('lanes'), rows.length * 30 + 20);
  context.font = '11px system-ui, "DejaVu Sans", sans-serif';
  context.textBaseline = 'middle';
  rows.forEach(({ name, row }, index) => {
    context.fillStyle = theme.soft;
    context.fillText(name, 20, index * 30 + 22, LABEL_WIDTH - 24);
    row.draw(context, whole, LABEL_WIDTH, width - LABEL_WIDTH, index * 30 + 12, 20, PALETTE[index % PALETTE.length]);
  });
}

const nextPicture = () => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); });

async function start() {
  const head = jsonOf('report-data');
  const timings = [['begun', performance.now()]];  // since the page was asked for, for tests
  drawFirstPicture(head);
  await nextPicture();
  const first_picture_ms = performance.now();
  timings.push(['first picture', first_picture_ms]);
  const tables = await readTables(head, 'a', TABLES);
  timings.push(['read', performance.now()]);
  const model = makeModel(head, tables, jsonOf('run-data'));
  timings.push(['model', performance.now()]);
  showFacts(model);
  const page = new Page(model);
  page.timings = timings;
  timings.push(['views', performance.now()]);
  await nextPicture();
  page.first_picture_ms = first_picture_ms;
  timings.push(['drawn', performance.now()]);
  const loading = document.getElementById('loading');
  loading.textContent = 'reading the calls of threads ...';
  Object.assign(model, await readTables(head, 'a', LATE_TABLES));
  page.timeline.rebuild();
  page.filters.refresh();
  await startOther(page);
  loading.textContent = '';
  window.dxgkit = page;  // for tests and the curious
}

start().catch((error) => { document.getElementById('loading').textContent = `This page is damaged: ${error.message}`; throw error; });
