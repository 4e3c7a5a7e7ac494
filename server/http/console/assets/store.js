// The page of the state store: namespaces, the keys of one, one key.

import { listen, store as api } from "./api.js";
import { confirm, dialog, refusalText, say, sayRefusal } from "./dialogs.js";
import { button, debounce, h, icon, nextFrame, put, throttle } from "./dom.js";
import { createEntry } from "./entry.js";
import { bytes, number, span, t } from "./i18n.js";
import { createList } from "./list.js";
import { isolated, name as nameOf, value as valueOf } from "./names.js";
import { compareKeys, merge, place } from "./order.js";
import { TYPES, createTTL, createValue, shorten, startOf } from "./values.js";

const PAGE = 1000; // keys asked for at a time
const NAMESPACES = 500;
const MAX_NAMESPACES = 20_000; // more are not listed, but can be opened by their name
const narrow = matchMedia("(max-width: 760px)");

const HOW = ["begins", "contains", "values"]; // to look for keys

const kept = { prefix: "", ns: "", how: "begins" };

// question is what the server is asked for.
function question() {
  return kept.how === "begins" ? { prefix: kept.prefix } : { contains: kept.prefix, values: kept.prefix !== "" && kept.how === "values" };
}

// fits says whether what the stream tells is what is looked for, as the server does.
function fits({ key, type, value }) {
  if (kept.how === "begins" || !kept.prefix) return true;
  const wanted = kept.prefix.toLowerCase();
  return key.toLowerCase().includes(wanted) || (kept.how === "values" && type !== "bytes" && String(value).toLowerCase().includes(wanted));
}

export function open(main, frame) {
  const page = new Page(main, frame);
  return { show: (ns, key) => page.show(ns, key), close: () => page.close() };
}

class Page {
  constructor(main, frame) {
    this.frame = frame;
    this.gone = new AbortController();
    this.namespaces = [];
    this.ns = "";
    this.keys = []; // loaded, sorted: {key, type, preview, size, mod, expires_ms}
    this.more = false;
    this.total = null;
    this.loading = null; // aborts a page being loaded
    this.unlisten = () => {};
    this.entry = createEntry({ back: () => go(this.ns) });
    this.build(main);
    this.pending = new Map(); // key → what the stream has told since the last frame
    this.flashes = new Set();
    this.drawKeys = nextFrame(() => {
      this.takeIn();
      this.keyList.set(this.keys);
      setTimeout(() => this.flashes.clear(), 300); // of rows that are not in sight
    });
    this.reloadNamespaces = throttle(1000, () => this.loadNamespaces());
    this.recount = throttle(1000, () => this.loadCount());
    this.timer = setInterval(() => this.tick(), 1000);
    this.loadNamespaces();
    this.onNarrow = () => this.keyList.refresh();
    narrow.addEventListener("change", this.onNarrow);
  }

  close() {
    this.gone.abort();
    this.loading?.abort();
    clearInterval(this.timer);
    this.unlisten();
    this.reloadNamespaces.cancel();
    this.recount.cancel();
    narrow.removeEventListener("change", this.onNarrow);
    this.entry.close();
    this.keyList.close();
    this.nsList.close();
  }

  build(main) {
    this.nsFilter = h("input", { type: "search", id: "ns-filter", placeholder: t("filter"), "aria-label": t("store.filter"), on: { input: () => this.drawNamespaces() } });
    this.nsList = createList({
      label: t("store.namespaces"), id: "namespaces", rowHeight: 46,
      row: (ns) => h("div", { class: "ns-row" }, h("span", { class: "ns-name" }, nameOf(ns.name)),
        h("span", { class: "ns-count" }, t("store.keys", { n: ns.keys }), h("small", null, bytes(ns.bytes)))),
      choose: (ns) => go(ns.name),
    });
    this.totals = h("span", { id: "totals" });
    this.how = h("select", { id: "how", "aria-label": t("store.how"), on: { change: () => {
      kept.how = this.how.value;
      if (this.ns && kept.prefix) this.follow();
    } } }, HOW.map((how) => h("option", { value: how, prop: { selected: how === kept.how } }, t(`find.${how}`))));
    this.prefix = h("input", { type: "search", class: "mono", id: "prefix", placeholder: t("store.prefix"), "aria-label": t("store.prefix"), autocomplete: "off", spellcheck: "false",
      prop: { value: kept.prefix }, on: { input: debounce(200, () => {
        kept.prefix = this.prefix.value;
        if (this.ns) this.follow();
      }) } });
    this.keyList = createList({
      label: t("store.keysLabel"), id: "keys", rowHeight: () => (narrow.matches ? 54 : 34),
      row: (item) => this.keyRow(item), choose: (item) => go(this.ns, item.key), nearEnd: () => this.loadMore(),
    });
    this.nsHead = h("div", { class: "detail-head" });
    this.keyCount = h("span", { id: "key-count", role: "status" });
    this.note = h("p", { class: "note" });
    this.empty = h("section", { class: "empty" }, h("div", { class: "empty-text" }, icon("box"), h("p", null, t("store.pick")), h("p", { class: "hint" }, t("store.about"))));
    this.keysPane = h("section", { class: "pane keys", hidden: true }, this.nsHead,
      h("div", { class: "pane-tools" }, this.how, h("div", { class: "search" }, icon("search"), this.prefix)), this.note, this.keyList.el, h("div", { class: "pane-foot" }, this.keyCount));
    this.noEntry = h("section", { class: "empty second" }, h("div", { class: "empty-text" }, h("p", { class: "hint" }, t("store.pickKey"))));
    this.split = h("div", { class: "split store", data: { pane: "ns" } },
      h("section", { class: "pane side" },
        h("div", { class: "pane-tools" }, h("div", { class: "search" }, icon("search"), this.nsFilter),
          button(t("configs.new"), () => this.create(), { icon: "plus", kind: "primary", id: "new-key", title: t("store.new") })),
        this.nsList.el, h("div", { class: "pane-foot" }, this.totals)),
      this.keysPane, this.entry.el, this.noEntry, this.empty);
    put(main, this.split);
  }

  show(ns = "", key = "") {
    if (ns !== this.ns) {
      if (kept.ns && ns !== kept.ns) kept.prefix = this.prefix.value = "";
      this.ns = kept.ns = ns;
      this.keysPane.hidden = !ns;
      this.empty.hidden = Boolean(ns);
      this.drawNsHead();
      this.nsList.select((item) => item.name === this.ns);
      if (ns) this.follow();
      else this.unfollow();
    }
    this.entry.show(ns, key);
    this.noEntry.hidden = !ns || Boolean(key);
    this.split.dataset.pane = key ? "entry" : ns ? "keys" : "ns";
    this.keyList.select((item) => item.key === key);
    if (narrow.matches) document.getElementById(key ? "back-keys" : "back-ns")?.focus();
  }

  // ---- namespaces

  async loadNamespaces() {
    if (this.mayNot) return;
    try {
      const all = [];
      let after;
      for (;;) {
        const { namespaces, more } = await api.namespaces(after, NAMESPACES, this.gone.signal);
        all.push(...namespaces);
        if (!more || !namespaces.length || all.length >= MAX_NAMESPACES) break;
        after = namespaces.at(-1).name;
      }
      this.namespaces = all;
      this.counts();
      this.drawNamespaces();
    } catch (err) {
      if (err.status === 403) {
        this.mayNot = true;
        put(this.totals, refusalText(err));
      } else if (err.status) sayRefusal(err); // an absent server shows at the top
    }
  }

  drawNamespaces() {
    const wanted = this.nsFilter.value.trim().toLowerCase();
    this.nsList.set(this.namespaces.filter((ns) => ns.name.toLowerCase().includes(wanted)));
    let keys = 0, size = 0;
    for (const ns of this.namespaces) {
      keys += ns.keys;
      size += ns.bytes;
    }
    put(this.totals, this.namespaces.length ? [t("store.totalNs", { n: this.namespaces.length }), " · ", t("store.totalKeys", { n: keys }), " · ", bytes(size)] : t("store.noNamespaces"));
  }

  drawNsHead() {
    put(this.nsHead,
      button(t("back"), () => go(), { icon: "back", bare: true, kind: "narrow-only", id: "back-ns" }),
      h("div", { class: "titles" }, h("h2", { id: "ns-name" }, nameOf(this.ns))),
      h("div", { class: "actions" }, button(t("store.new"), () => this.create(), { icon: "plus", bare: true, kind: "narrow-only", id: "new-key-narrow" }),
        button(t("store.drop"), () => this.drop(), { icon: "trash", kind: "danger", bare: true, id: "drop-ns" })));
  }

  // ---- keys

  unfollow() {
    this.unlisten();
    this.unlisten = () => {};
    this.loading?.abort();
    this.loading = null;
    this.pending.clear();
    this.flashes.clear();
    this.keys = [];
    this.total = null;
    this.keyList.set([]);
  }

  // follow begins to listen before it reads, so that nothing is missed between
  // the two; a revision says which of them is newer.
  follow() {
    this.unfollow();
    const heard = (kind) => (event) => this.heard(kind, api.event(event.data));
    this.unlisten = listen("store/stream", { ns: this.ns, prefix: question().prefix }, {
      put: heard("put"), delete: heard("delete"), expire: heard("expire"), resync: () => this.restart(),
    }, { state: this.frame.live, fresh: () => this.restart() });
  }

  restart() {
    this.loading?.abort();
    this.loading = null;
    this.seen = new Map(); // key → what the stream told since the reading began
    this.keysNew = true;
    this.more = true;
    this.loadMore();
    this.recount();
  }

  async loadCount() {
    const { ns, gone } = this, { prefix, how } = kept;
    if (!ns || (how !== "begins" && prefix)) return;
    try {
      const { count } = await api.count(ns, prefix, gone.signal);
      if (ns !== this.ns || prefix !== kept.prefix || how !== kept.how) return;
      this.total = count;
      this.counts();
    } catch (err) {
      if (err.status) sayRefusal(err);
    }
  }

  async loadMore() {
    if (this.loading || !this.more || !this.ns) return;
    const mine = this.loading = new AbortController();
    const first = this.keysNew;
    const after = first ? undefined : this.end;
    try {
      const got = await api.keys(this.ns, { ...question(), after, limit: PAGE }, mine.signal);
      if (mine.signal.aborted) return;
      this.takeIn();
      if (first) this.keys = [];
      this.keysNew = false;
      this.more = Boolean(got.more);
      this.add(got.entries.map(brief), got.scanned);
      this.loading = null;
      this.drawKeys();
      this.counts();
      if (!got.entries.length) this.loadMore(); // the search goes on where the server stopped
    } catch (err) {
      if (err.name === "AbortError") return;
      this.loading = null;
      this.more = false;
      sayRefusal(err);
    }
  }

  // add appends a page, unless the stream has told something newer of a key.
  add(page, scanned) {
    for (const item of page) {
      const newer = this.seen.get(item.key);
      if (!newer || newer.mod <= item.mod) this.keys.push(item);
      else if (newer.item) this.keys.push(newer.item);
    }
    this.after = scanned ?? page.at(-1)?.key ?? this.after;
    // What came in behind the last page belongs to the next one.
    const changes = new Map();
    for (const [key, newer] of this.seen) {
      if (this.more && compareKeys(key, this.after) > 0) continue;
      changes.set(key, newer);
      this.seen.delete(key);
    }
    this.change(changes);
  }

  // end is the last key that was looked at.
  get end() {
    return kept.how === "begins" || !kept.prefix ? this.keys.at(-1)?.key ?? this.after : this.after;
  }

  // heard takes in what the stream tells. Thousands of changes may come at once,
  // so the list takes them in together, once per frame.
  heard(kind, event) {
    const gone = kind !== "put";
    this.pending.set(event.key, { mod: event.mod, item: gone || !fits(event) ? null : brief(event) });
    if (event.key === this.entry.key) this.entry.hear(gone ? null : event, kind);
    this.drawKeys();
    this.recount();
    this.reloadNamespaces();
  }

  takeIn() {
    if (!this.pending.size) return;
    const changes = new Map();
    const { end } = this;
    for (const [key, change] of this.pending) {
      const behind = this.keysNew || (this.more && (end === undefined || compareKeys(key, end) > 0));
      if (behind || this.loading) this.seen.set(key, change);
      if (!behind) changes.set(key, change);
    }
    this.pending.clear();
    for (const key of this.change(changes)) this.flashes.add(key);
    this.counts();
  }

  // change puts changes into the list and returns the keys that are different now.
  change(changes) {
    const added = [], gone = new Set(), different = [];
    for (const [key, { mod, item }] of changes) {
      const at = place(this.keys, key);
      const there = this.keys[at]?.key === key ? this.keys[at] : null;
      if (there ? there.mod >= mod : !item) continue;
      if (!item) gone.add(key);
      else if (there) this.keys[at] = item;
      else added.push(item);
      different.push(key);
    }
    if (gone.size) this.keys = this.keys.filter((item) => !gone.has(item.key));
    if (added.length) this.keys = merge(this.keys, added.sort((a, b) => compareKeys(a.key, b.key)));
    return different;
  }

  keyRow(item) {
    const left = item.expires_ms ? item.expires_ms - Date.now() : 0;
    const el = h("div", { class: "key-row", title: isolated(item.key) }, h("span", { class: "key-name mono" }, nameOf(item.key)), h("span", { class: `type ${item.type}` }, item.type),
      h("span", { class: "rest" }, h("span", { class: "preview mono" }, valueOf(item.preview, item.type)), item.expires_ms ? h("span", { class: "left", title: t("store.expires") }, icon("clock"), span(left, 1)) : null));
    if (this.flashes.delete(item.key)) el.classList.add("flash");
    return el;
  }

  counts() {
    if (!this.ns) return;
    const loaded = this.keys.length;
    const searches = kept.how !== "begins" && kept.prefix;
    put(this.keyCount, this.keysNew && this.loading ? t("loading")
      : this.more && searches ? t("store.soFar", { n: loaded })
      : this.more && this.total !== null ? t("store.loaded", { loaded, n: this.total }) : t("store.keys", { n: loaded }));
    put(this.note, loaded || this.loading || this.keysNew ? null : searches ? t("store.noneContains") : kept.prefix ? t("store.noMatch") : t("store.noKeys"));
    if (!kept.prefix && !this.keysNew) this.agree(this.more ? this.total : loaded);
  }

  // agree has the list of namespaces and the sums say of the open one what the list
  // of its keys says, which is newer.
  agree(keys) {
    const mine = this.namespaces.find((ns) => ns.name === this.ns);
    if (!mine || !keys || mine.keys === keys) return;
    mine.keys = keys;
    this.drawNamespaces();
  }

  tick() {
    if (this.keys.length && this.keys.some((item) => item.expires_ms)) this.keyList.refresh();
    this.entry.tick();
    if (!document.hidden && ++this.beat % 5 === 0) this.loadNamespaces();
  }

  beat = 0;

  // ---- writing

  create() {
    const ns = h("input", { type: "text", class: "mono", id: "new-ns", autocomplete: "off", spellcheck: "false", required: true, list: "ns-names", prop: { value: this.ns }, autofocus: !this.ns });
    const key = h("input", { type: "text", class: "mono", id: "new-key-name", autocomplete: "off", spellcheck: "false", required: true, autofocus: Boolean(this.ns), prop: { value: this.ns ? kept.prefix : "" } });
    const holder = h("div", { class: "value-area" });
    const ttl = createTTL(0, () => {});
    let value = null;
    const kind = h("select", { id: "new-type", on: { change: () => draw() } }, TYPES.map((name) => h("option", { value: name }, name)));
    const draw = () => {
      const from = value?.value;
      value?.close();
      value = createValue(kind.value, startOf(kind.value, from), { onInput: () => {} });
      holder.className = `value-area ${kind.value}`;
      put(holder, value.el);
    };
    draw();
    return dialog({
      title: t("store.newTitle"), id: "new-entry", wide: true,
      body: [h("datalist", { id: "ns-names" }, this.namespaces.slice(0, 500).map((each) => h("option", { value: each.name }))),
        h("div", { class: "fields" }, h("label", { class: "field" }, h("span", null, t("store.namespace")), ns), h("label", { class: "field grow" }, h("span", null, t("store.key")), key)),
        h("div", { class: "fields" }, h("label", { class: "field" }, h("span", null, t("store.type")), kind), h("div", { class: "field" }, h("span", null, t("store.expires")), ttl.el)),
        h("div", { class: "field" }, h("span", null, t("store.value")), holder)],
      actions: [{ label: t("cancel"), value: null }, { label: t("store.newGo"), id: "new-entry-go", main: true, value: true, submit: async () => {
        const fault = value.fault || ttl.fault;
        if (fault) throw new Error(fault);
        try {
          await api.put(ns.value, key.value, { type: kind.value, value: value.value, absent: true, ...ttl.fields });
        } catch (err) {
          throw err.conflict ? new Error(t("store.exists", { key: key.value })) : err;
        }
        value.close();
        say(t("store.saved", { key: key.value }));
        this.reloadNamespaces();
        go(ns.value, key.value);
        return true;
      } }],
    });
  }

  async drop() {
    const ns = this.ns;
    const done = await confirm({
      title: t("store.dropTitle", { ns }), text: t("store.dropAsk", { n: this.namespaces.find((each) => each.name === ns)?.keys ?? this.keys.length }), action: t("store.drop"), word: ns,
      submit: async () => {
        while ((await api.dropNamespace(ns)).more);
      },
    });
    if (!done) return;
    say(t("store.dropped", { ns }));
    this.loadNamespaces();
    go();
  }
}

// brief is what the list keeps of an entry: not the value, which may be long.
function brief(entry) {
  return { key: entry.key, type: entry.type, preview: shorten(entry.type, entry.value ?? ""), size: entry.size, mod: entry.mod, expires_ms: entry.expires_ms };
}

function go(ns, key) {
  location.hash = ["#/store", ns, key].filter((part) => part).map((part, i) => (i ? encodeURIComponent(part) : part)).join("/");
}
