// The server's REST and its streams. Addresses are relative to the page, so that
// a proxy may serve all of it below a prefix.

import { member, plain, read } from "./json.js";

const root = new URL("../v1/", document.baseURI);

function address(path, query = {}) {
  const url = new URL(path, root);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value === true ? "1" : value);
  }
  // Names may begin or end with anything; an empty namespace or key cannot be.
  return url;
}

// Refusal is an answer that says no: status of HTTP, code, name and detail of ours.
export class Refusal extends Error {
  constructor(status, body) {
    super(body.detail || body.error || `HTTP ${status}`);
    this.status = status;
    this.code = body.code ?? 0;
    this.reason = body.error ?? "";
  }

  get conflict() {
    return this.status === 412 || (this.status === 409 && this.reason === "older");
  }
}

// signedOut is told when the server does not know any more who asks.
let signedOut = () => {};
export function whenSignedOut(fn) {
  signedOut = fn;
}

// refused is told why a stream is, which is not asked for again.
let refused = () => {};
export function whenRefused(fn) {
  refused = fn;
}

// refusalOf asks once more for a stream that did not open, to learn why; null if it might now.
async function refusalOf(url) {
  const stop = new AbortController();
  try {
    const response = await fetch(url, { signal: stop.signal, cache: "no-store" });
    return response.ok ? null : new Refusal(response.status, parsed(await response.text()) ?? {});
  } catch {
    return null;
  } finally {
    stop.abort();
  }
}

// A page that is left open asks on, which does not put off the end of its session.
const ACTIVE = 60_000;
let active = Date.now();
for (const input of ["pointerdown", "keydown"]) addEventListener(input, () => (active = Date.now()), { capture: true, passive: true });

// sign says who writes from now on, where nobody has to prove it.
let author = "";
export function sign(name) {
  author = name;
}

async function ask(method, path, { query, body, match, absent, comment, signal, text } = {}) {
  const headers = { "X-Confcenter-Origin": "console" };
  if (Date.now() - active > ACTIVE) headers["X-Confcenter-Idle"] = "1";
  if (author && method !== "GET") headers["X-Confcenter-Author"] = encodeURIComponent(author);
  if (comment) headers["X-Confcenter-Comment"] = encodeURIComponent(comment);
  if (match !== undefined) headers["If-Match"] = `"${match}"`;
  if (absent) headers["If-None-Match"] = "*";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(address(path, query), { method, headers, body, signal, cache: "no-store" });
  } catch (err) {
    if (err.name === "AbortError" || err.name === "TimeoutError") throw err;
    throw new Refusal(0, { error: "unreachable" });
  }
  const answer = await response.text();
  if (response.status === 401 && path !== "session") signedOut();
  if (!response.ok) throw new Refusal(response.status, parsed(answer) ?? { detail: answer.trim() });
  return text ? answer : parsed(answer) ?? {};
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// entries keeps the text of json values, whose numbers JSON.parse would round.
// Only an answer that has any is read a second time.
function entries(text, pick) {
  const answer = JSON.parse(text);
  const list = pick(answer);
  for (const entry of list) if (entry.type !== "json" && entry.value !== undefined) entry.value = String(entry.value);
  if (!list.some((e) => e.type === "json")) return answer;
  const { root } = read(text);
  if (!root) return answer;
  const nodes = pick(null, root);
  list.forEach((entry, i) => {
    const value = member(nodes[i], "value");
    if (entry.type === "json" && value) entry.value = text.slice(value.start, value.end);
  });
  return answer;
}

const one = (answer, node) => (node ? [node] : [answer]);
const listOf = (name) => (answer, node) => (node ? member(node, name)?.items ?? [] : answer[name] ?? []);

const body = (value) => JSON.stringify(value);

// valued puts a json value into a body as the text it is.
function valued(fields, type, value) {
  const head = JSON.stringify({ ...fields, type });
  return `${head.slice(0, -1)},"value":${type === "json" ? value : JSON.stringify(value)}}`;
}

export const configs = {
  list: (signal) => ask("GET", "config/files", { signal }),
  file: (name, signal) => ask("GET", "config/file", { query: { name }, signal }),
  // resolved keeps the document as text, see entries.
  async resolved(name, signal) {
    const text = await ask("GET", "config/resolved", { query: { name }, signal, text: true });
    const { root } = read(text);
    const document = member(root, "document");
    return {
      revision: member(root, "revision") ? plain(text, member(root, "revision")) : 0,
      origins: plain(text, member(root, "origins") ?? { start: 0, end: 0 }) ?? {},
      text: document ? text.slice(document.start, document.end) : "null",
    };
  },
  save: (name, text, { match, absent, comment }) => ask("PUT", "config/file", { query: { name, raw: true }, body: text, match, absent, comment }),
  remove: (name, match, comment) => ask("DELETE", "config/file", { query: { name }, match, comment }),
  rename: (documents, comment) => ask("POST", "history/apply", { body: body({ documents, comment }) }),
  search: (q, signal) => ask("GET", "config/search", { query: { q }, signal }),
};

// raw keeps members of an answer, or of the elements of its list, as the JSON that they are,
// see entries.
function raw(text, list, names) {
  const answer = JSON.parse(text), { root } = read(text);
  const keep = (object, node) => {
    for (const name of names) {
      const value = member(node, name);
      if (value) object[name] = text.slice(value.start, value.end);
    }
  };
  keep(answer, root);
  (member(root, list)?.items ?? []).forEach((node, i) => keep(answer[list][i], node));
  return answer;
}

// past is what files were; a rev is a number, ~N for N versions before the newest, or a time.
export const past = {
  log: (name, before, limit, signal) => ask("GET", "history/log", { query: { name, before, limit }, signal }),
  show: (name, rev, resolved, offset, signal) => ask("GET", "history/show", { query: { name, rev, resolved, offset }, signal }),
  diff: async (query, signal) => raw(await ask("GET", "history/diff", { query, signal, text: true }), "paths", ["old", "new"]),
  explain: async (name, path, signal) => raw(await ask("GET", "history/explain", { query: { name, path }, signal, text: true }), "files", ["value"]),
  uses: (name, signal) => ask("GET", "history/uses", { query: { name }, signal }),
  blame: (name, path, signal) => ask("GET", "history/blame", { query: { name, path }, signal }),
  preview: async (name, text, signal) => raw(await ask("POST", "history/preview", { body: body({ name, text }), signal, text: true }), "paths", ["old", "new"]),
  rollback: (name, rev, comment) => ask("POST", "history/rollback", { body: body({ name, rev, comment }) }),
};

export const store = {
  namespaces: (after, limit, signal) => ask("GET", "store/namespaces", { query: { after, limit }, signal }),
  dropNamespace: (ns) => ask("DELETE", "store/namespace", { query: { ns, confirm: ns } }),
  async keys(ns, { prefix, contains, values, after, limit }, signal) {
    return entries(await ask("GET", "store/keys", { query: { ns, prefix, contains, values, after, limit }, signal, text: true }), listOf("entries"));
  },
  count: (ns, prefix, signal) => ask("GET", "store/keys", { query: { ns, prefix, count: true }, signal }),
  async get(ns, key, signal) {
    return entries(await ask("GET", "store/key", { query: { ns, key }, signal, text: true }), one);
  },
  put: (ns, key, { type, value, ttl, expires, lease, absent, match }) =>
    ask("PUT", "store/key", { query: { ns, key }, match, absent, body: valued({ ttl_ms: ttl, expires_ms: expires, lease }, type, value) }),
  remove: (ns, key, match) => ask("DELETE", "store/key", { query: { ns, key }, match }),
  incr: (ns, key, by) => ask("POST", "store/incr", { query: { ns, key }, body: body({ by }) }),
  async history(ns, key, before, limit, signal) {
    return entries(await ask("GET", "store/history", { query: { ns, key, before, limit }, signal, text: true }), listOf("versions"));
  },
  restore: (ns, key, revision) => ask("POST", "store/restore", { query: { ns, key }, body: body({ revision }) }),
  event: (text) => entries(text, one),
};

// segments are the ids of a path. Browsers resolve two of them whatever their spelling.
const segments = (ids) => ids.map((id) => {
  if (id === "." || id === "..") throw new Refusal(0, { error: "bad_request", detail: `a browser cannot ask for the id ${id}` });
  return encodeURIComponent(id);
}).join("/");

export const storage = {
  regions: (signal) => ask("GET", "storage", { signal }),
  owners: async (place, { kind, after, limit }, signal) => ask("GET", `storage/${segments(place)}`, { query: { logicType: kind, after, limit }, signal }),
  countOwners: async (place, kind, signal) => ask("GET", `storage/${segments(place)}`, { query: { logicType: kind, count: true }, signal }),
  fields: async (owner, limit, signal) => ask("GET", `storage/${segments(owner)}`, { query: { limit, versions: true, dirty: true }, signal }),
};

const fieldName = ({ appId, regionId, logicType, ownerId, name }) => ({ appId, regionId, logicType, ownerId, name });

export const landing = {
  status: (signal) => ask("GET", "landing", { signal }),
  errors: (signal) => ask("GET", "landing/errors", { signal }),
  // An empty list is all, as is a missing one.
  retry: (list) => ask("POST", "landing/errors/retry", { body: body(list.length ? { rows: list.map(fieldName) } : {}) }),
  // No one is all; n is how many that are.
  drop: (one, n) => ask("DELETE", "landing/errors", { query: { ...(one && fieldName(one)), confirm: n } }),
};

export const flow = {
  scopes: (signal) => ask("GET", "flow/scopes", { signal }),
  tree: (scope, after, limit, signal) => ask("GET", "flow/tree", { query: { scope, after, limit }, signal }),
  oplog: (scope, key, signal) => ask("GET", "flow/oplog", { query: { scope, key }, signal }),
  // member keeps the values of fields as text, see entries.
  async member(scope, key, signal) {
    const text = await ask("GET", "flow/member", { query: { scope, key }, signal, text: true });
    const answer = JSON.parse(text);
    const nodes = member(read(text).root, "fields")?.items ?? [];
    answer.fields = nodes.map((node, i) => {
      const value = member(node, "value");
      return { key: answer.fields[i].key, text: text.slice(value.start, value.end) };
    });
    return answer;
  },
};

export const bench = {
  jobs: (query, signal) => ask("GET", "bench/jobs", { query, signal }),
  // job asks for the stages, too, for which an answer had no room.
  async job(id, signal) {
    const job = await ask("GET", "bench/job", { query: { id }, signal });
    for (let from = job.next; from;) {
      const rest = await ask("GET", "bench/job", { query: { id, from }, signal });
      job.stages.push(...rest.stages);
      from = rest.next;
    }
    return job;
  },
  abort: (id) => ask("POST", "bench/jobs/abort", { body: body({ id }) }),
  nodes: (query, signal) => ask("GET", "bench/nodes", { query, signal }),
  node: (id, signal) => ask("GET", "bench/node", { query: { id }, signal }),
  // history is of "jobs" or "nodes".
  history: (of, id, signal) => ask("GET", `bench/${of}/history`, { query: { id }, signal }),
};

// session is that of this browser.
export const session = {
  async who(signal) {
    const answer = await ask("GET", "session", { signal });
    if (answer.access_control && !answer.name) signedOut();
    return answer;
  },
  byToken: (token) => ask("POST", "session", { body: body({ token }) }),
  byProvider: (back) => ask("POST", "session/openid", { body: body({ return: back }) }),
  end: (all) => ask("DELETE", "session", { query: { all } }),
};

// reviews are changes that wait for approval.
export const reviews = {
  list: (query) => ask("GET", "review/list", { query }),
  show: (number) => ask("GET", "review/show", { query: { number } }),
  decide: (how, number, comment) => ask("POST", `review/${how}`, { body: body({ number, comment: comment || undefined }) }),
};

// audit is who did what; lines are told of by a stream, too.
export const audit = {
  head: () => ask("GET", "audit/head"),
  lines: (query) => ask("GET", "audit/lines", { query }),
};

// auth is everybody's tokens and sessions.
export const auth = {
  tokens: (after) => ask("GET", "auth/tokens", { query: { after } }),
  make: (token) => ask("POST", "auth/token", { body: body(token) }),
  revoke: (id) => ask("POST", "auth/revoke", { body: body({ id }) }),
  sessions: (after) => ask("GET", "auth/sessions", { query: { after } }),
  end: (id) => ask("POST", "auth/end", { body: body({ id }) }),
};

export const clients = (signal) => ask("GET", "clients", { signal });
export const status = (signal) => ask("GET", "status", { signal });
export const samples = (signal) => ask("GET", "status/samples", { signal });

// listen opens a stream and keeps it open: an EventSource comes back by itself
// after a lost connection, but not after an answer that is no stream, from a
// server that is just stopping for example. A page that nobody looks at gives its
// stream back after a while, and one that was left at once, even if the browser
// keeps it for the way back: browsers allow six connections to a server.
// events are handlers by name, of which each gets the event; state is told "live",
// "waiting" or "none"; fresh is called whenever the stream is a new one, which
// does not go on where the last one stopped.
export function listen(path, query, events, { state = () => {}, fresh = () => {} } = {}) {
  let source = null;
  let timer = 0;
  let wait = 500;
  let last = ""; // the id of the last event that had one
  const open = () => {
    clearTimeout(timer);
    source?.close();
    const url = address(path, { ...query, last });
    const mine = new EventSource(url);
    source = mine;
    mine.addEventListener("open", () => {
      wait = 500;
      state("live");
      if (!last) fresh();
    });
    mine.addEventListener("error", async () => {
      state("waiting");
      if (mine.readyState !== EventSource.CLOSED || mine !== source) return;
      const refusal = await refusalOf(url);
      if (mine !== source) return;
      if (refusal?.status === 401) signedOut();
      if (refusal?.status === 403) {
        state("none");
        refused(refusal);
        return;
      }
      timer = setTimeout(open, wait);
      wait = Math.min(wait * 2, 10_000);
    });
    for (const [name, handler] of Object.entries(events)) {
      mine.addEventListener(name, (event) => {
        last = event.lastEventId || last;
        handler(event);
      });
    }
  };
  const pause = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  let hidden = 0;
  const seen = () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(pause, 20_000);
    else if (!source) open();
  };
  const back = () => {
    if (!source) open();
  };
  document.addEventListener("visibilitychange", seen);
  window.addEventListener("pagehide", pause);
  window.addEventListener("pageshow", back);
  open();
  return () => {
    document.removeEventListener("visibilitychange", seen);
    window.removeEventListener("pagehide", pause);
    window.removeEventListener("pageshow", back);
    clearTimeout(hidden);
    pause();
    state("none");
  };
}
