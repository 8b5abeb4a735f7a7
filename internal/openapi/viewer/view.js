'use strict';
// Shows openapi.json. Whatever comes from the server, names of models too, goes into
// the page as text, never as markup.

const byId = (id) => document.getElementById(id);

// make returns an element with attributes, and children that are elements or text.
function make(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else e.setAttribute(key, value);
  }
  e.append(...children);
  return e;
}

function resolve(doc, thing) {
  if (!thing || !thing.$ref) return thing;
  return thing.$ref.slice(2).split('/').reduce((at, part) => at[part.replace(/~1/g, '/').replace(/~0/g, '~')], doc);
}

// spelled is a schema with what it refers to in place, as deep as a reader wants it.
function spelled(doc, schema, depth = 0) {
  if (Array.isArray(schema)) return schema.map((s) => spelled(doc, s, depth));
  if (!schema || typeof schema !== 'object') return schema;
  if (schema.$ref && depth > 6) return schema;
  const whole = resolve(doc, schema);
  return Object.fromEntries(Object.entries(whole).map(([key, value]) => [key, spelled(doc, value, depth + 1)]));
}

function headers() {
  const key = byId('key').value;
  return key ? { Authorization: 'Bearer ' + key } : {};
}

// quoted is text for a POSIX shell.
const quoted = (text) => "'" + text.replace(/'/g, "'\\''") + "'";

function curl(method, address, body) {
  const key = byId('key').value ? " -H 'Authorization: Bearer KEY'" : '';
  const how = method === 'get' ? '' : ' -X ' + method.toUpperCase();
  return 'curl -s' + how + key + ' ' + quoted(address) + (body === undefined || body === '' ? '' : ' -d ' + quoted(body));
}

// pretty is a body as a reader wants it; numbers too long for JavaScript stay as they
// came, since the text is shown where reading and writing would change it.
function pretty(text) {
  try {
    const value = JSON.parse(text);
    const out = JSON.stringify(value, null, 2);
    return /\d{16}/.test(text) ? text : out;
  } catch {
    return text;
  }
}

const shownLimit = 200000;

async function send(method, path, fields, area, out) {
  let address = path;
  const query = new URLSearchParams();
  for (const { parameter, input } of fields) {
    if (parameter.in === 'path') {
      if (!input.value) {
        out.replaceChildren(make('p', { class: 'bad' }, parameter.name + ' is needed'));
        input.focus();
        return;
      }
      address = address.replace('{' + parameter.name + '}', encodeURIComponent(input.value));
    } else if (parameter.in === 'query' && input.value) query.set(parameter.name, input.value);
  }
  if ([...query].length) address += '?' + query;
  const whole = new URL('.' + address, document.baseURI);
  const body = area ? area.value : undefined;
  const line = make('pre', {}, curl(method, whole.href, body));
  out.replaceChildren(make('p', {}, 'sending'));
  const begin = performance.now();
  try {
    const answer = await fetch(whole, { method: method.toUpperCase(), headers: headers(), body: method === 'get' ? undefined : body });
    const text = await answer.text();
    const took = (performance.now() - begin).toFixed(1);
    const cut = text.length > shownLimit ? text.slice(0, shownLimit) + '\n(cut)' : pretty(text);
    out.replaceChildren(
      make('p', answer.ok ? {} : { class: 'bad' }, `${answer.status} ${answer.statusText}, ${took} ms`),
      make('pre', { class: 'answer', tabindex: '0' }, cut || '(no body)'), make('h3', {}, 'The same in a shell'), line);
  } catch (error) {
    out.replaceChildren(make('p', { class: 'bad' }, 'no answer: ' + error.message), line);
  }
}

// inside is what an operation shows when it is opened.
function inside(doc, method, path, operation) {
  const box = make('div', { class: 'inside' });
  if (operation.description) box.append(make('p', {}, operation.description));
  const fields = [];
  for (const p of operation.parameters || []) {
    const parameter = resolve(doc, p);
    if (parameter.in === 'header') continue;
    const input = make('input', { autocomplete: 'off' });
    fields.push({ parameter, input });
    box.append(make('label', {}, parameter.name + ': ' + (parameter.description || ''), input));
  }
  let area;
  const media = operation.requestBody && operation.requestBody.content['application/json'];
  if (media) {
    const example = media.example ? JSON.stringify(media.example) : operation.requestBody.required ? '{}' : '';
    area = make('textarea', { rows: Math.min(12, 2 + Math.ceil(example.length / 100)), spellcheck: 'false' });
    area.value = example;
    box.append(make('label', {}, 'Body', area));
  }
  const out = make('div', { 'aria-live': 'polite' });
  box.append(make('p', {}, make('button', { type: 'button', onclick: () => send(method, path, fields, area, out) }, 'Send')), out);
  if (media) {
    const schema = JSON.stringify(spelled(doc, media.schema), null, 2);
    box.append(make('details', {}, make('summary', {}, 'What the body may be'), make('pre', { tabindex: '0' }, schema)));
  }
  return box;
}

function row(doc, method, path, operation) {
  const summary = make('summary', {}, make('span', { class: 'how ' + method }, method.toUpperCase()), ' ', make('code', {}, path),
    make('span', { class: 'what' }, operation.summary));
  const details = make('details', { class: 'operation' }, summary);
  details.addEventListener('toggle', () => {
    if (details.open && details.childElementCount === 1) details.append(inside(doc, method, path, operation));
  });
  details.words = (path + ' ' + operation.summary).toLowerCase();
  return details;
}

function filter() {
  const wanted = byId('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const section of byId('operations').children) {
    let any = false;
    for (const details of section.querySelectorAll('details.operation')) {
      details.hidden = !wanted.every((word) => details.words.includes(word));
      any = any || !details.hidden;
    }
    section.hidden = !any;
  }
}

async function load() {
  const state = byId('state');
  state.textContent = 'reading';
  state.className = '';
  let doc;
  try {
    const answer = await fetch(new URL('openapi.json', document.baseURI), { headers: headers() });
    if (!answer.ok) throw new Error(answer.status === 401 ? 'the server asks for a key' : answer.status + ' ' + answer.statusText);
    doc = await answer.json();
  } catch (error) {
    state.textContent = 'The description could not be read: ' + error.message;
    state.className = 'bad';
    byId('operations').replaceChildren();
    return;
  }
  byId('version').textContent = 'interface ' + doc.info.version;
  const sections = new Map(doc.tags.map((tag) => [tag.name, make('section', {},
    make('h2', {}, tag.name), make('p', {}, tag.description))]));
  // Requests to a model that is loaded come before those to any model.
  const paths = Object.entries(doc.paths).sort(([a], [b]) => a.includes('{') - b.includes('{'));
  let count = 0;
  for (const [path, methods] of paths) {
    for (const [method, operation] of Object.entries(methods)) {
      sections.get(operation.tags[0]).append(row(doc, method, path, operation));
      count++;
    }
  }
  byId('operations').replaceChildren(...sections.values());
  state.textContent = count + ' operations';
  filter();
}

byId('filter').addEventListener('input', filter);
byId('controls').addEventListener('submit', (event) => {
  event.preventDefault();
  load();
});
load();
