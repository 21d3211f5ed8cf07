// The tables of a recording: typed columns in compressed blocks, each an element of the page.
//
// A table: {count, columns: [{name, width | texts}], chunks: [[rows, block, [encoding of each column]]]}. An encoding: `-` all missing, `=N` all
// N, `uW` numbers of W bytes (8: floating point), `dW:N` zigzag changes of W bytes, the first from N. Below 8 bytes all bits set mean missing.
// The columns of a block follow one another, each at a multiple of 8.

const BLOCKS_AT_ONCE = 8;
const ARRAYS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: Float64Array };

async function inflate(id) {
  const node = document.getElementById(id);
  const answer = await fetch(`data:application/octet-stream;base64,${node.textContent}`);
  const bytes = await new Response(answer.body.pipeThrough(new DecompressionStream('deflate'))).arrayBuffer();
  node.remove();  // the text is not needed any more
  return bytes;
}

/** Puts one column of a chunk into `out` from row `first` on. Returns where the next one may begin. */
function decodeColumn(encoding, bytes, at, rows, out, first, texts) {
  const put = texts ? (row, value) => { out[row] = value === value ? texts[value] : null; } : (row, value) => { out[row] = value; };
  if (encoding === '-' || encoding[0] === '=') {
    const value = encoding === '-' ? NaN : Number(encoding.slice(1));
    if (texts) for (let i = 0; i < rows; ++i) put(first + i, value); else out.fill(value, first, first + rows);
    return at;
  }
  const width = Number(encoding[1]);
  const begin = Math.ceil(at / 8) * 8;
  const source = new ARRAYS[width](bytes, begin, rows);
  const missing = width === 8 ? NaN : 2 ** (8 * width) - 1;
  if (encoding[0] === 'u') {
    if (!texts && (width === 8 || !(out instanceof Float64Array))) out.set(source, first);
    else for (let i = 0; i < rows; ++i) put(first + i, source[i] === missing ? NaN : source[i]);
  } else {
    let value = Number(encoding.slice(3));
    for (let i = 0; i < rows; ++i) {
      const change = source[i];
      if (change === missing) { put(first + i, NaN); continue; }
      value += change & 1 ? -(change + 1) / 2 : change / 2;
      put(first + i, value);
    }
  }
  return begin + rows * width;
}

/** The tables of `names` as {count, columns, names}: numbers in typed arrays, missing ones NaN; texts in arrays, missing ones null. */
async function readTables(head, prefix, names) {
  const tables = {};
  const work = [];
  for (const name of names) {
    const source = head.tables[name];
    const table = { count: source ? source.count : 0, columns: {}, names: [] };
    tables[name] = table;
    if (!source) continue;
    for (const column of source.columns) {
      table.names.push(column.name);
      table.columns[column.name] = column.texts ? new Array(source.count) : new ARRAYS[column.width](source.count);
    }
    let first = 0;
    for (const [rows, block, encodings] of source.chunks) {
      const begin = first;
      work.push(async () => {
        const bytes = await inflate(`${prefix}${block}`);
        let at = 0;
        source.columns.forEach((column, i) => { at = decodeColumn(encodings[i], bytes, at, rows, table.columns[column.name], begin, column.texts); });
      });
      first += rows;
    }
  }
  let next = 0;
  const worker = async () => { while (next < work.length) await work[next++](); };
  await Promise.all(Array.from({ length: BLOCKS_AT_ONCE }, worker));
  return tables;
}
