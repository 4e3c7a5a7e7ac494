// One key: its value, when it ends, its history.

import { store as api } from "./api.js";
import { confirm, dialog, say, sayRefusal } from "./dialogs.js";
import { button, h, icon, put } from "./dom.js";
import { ago, bytes, dateTime, number, span, t } from "./i18n.js";
import { diffView } from "./lines.js";
import { name as nameOf, value as valueOf } from "./names.js";
import { TYPES, createTTL, createValue, shorten, startOf, valueText } from "./values.js";

// drafts are what was typed and not saved, by namespace and key, while one looks
// at something else.
const drafts = new Map();

export const unsaved = () => drafts.size > 0;

// createEntry makes the view; back closes it.
export function createEntry({ back }) {
  const head = h("div", { class: "detail-head" });
  const banner = h("div", { class: "banners", "aria-live": "polite" });
  const form = h("div", { class: "entry-form" });
  const facts = h("dl", { class: "facts" });
  const past = h("div", { class: "history" });
  const el = h("section", { class: "pane detail entry", hidden: true }, head, banner, h("div", { class: "entry-scroll" }, form, facts, past));

  let ns = "", key = "";
  let entry = null; // as the server has it
  let base = null; // as it was when one began to edit; entry, if nothing was edited
  let type = "", value = null, ttl = null;
  let asked = null; // aborts what was asked for another key
  let versions = null; // null: not opened
  let saving = false; // so that what the stream tells may be one's own doing
  let loading = false; // so that it is not known yet what is to be compared with that
  let missed = null; // what the stream told last meanwhile: [next, kind]
  let histories = 0; // that were asked for
  let drawn = ""; // what the head shows

  const dirty = () => Boolean(base) && (type !== base.type || value.value !== base.value || ttl.changed);

  async function show(wantedNs, wantedKey) {
    if (wantedNs === ns && wantedKey === key) return;
    close();
    [ns, key] = [wantedNs, wantedKey];
    el.hidden = !key;
    if (!key) return;
    put(head);
    put(banner);
    put(form);
    put(facts);
    put(past);
    asked = new AbortController();
    const { signal } = asked;
    loading = true;
    try {
      const got = await api.get(ns, key, signal);
      if (signal.aborted) return;
      loading = false;
      const draft = drafts.get(id());
      fill(got);
      if (draft) resume(draft);
    } catch (err) {
      if (err.name === "AbortError") return;
      loading = false;
      drawHead();
      if (err.status === 404) lookBack();
      else sayRefusal(err);
    }
    catchUp();
  }

  // catchUp takes in what the stream told while it could not be.
  function catchUp() {
    const told = missed;
    missed = null;
    if (told) hear(...told);
  }

  // hear takes in what the stream tells of this key; next is null when it is gone.
  function hear(next, kind) {
    if (saving || loading) {
      missed = [next, kind];
      return;
    }
    if (!entry) {
      if (next) fill(next);
      return;
    }
    if (next && next.mod <= entry.mod) return;
    if (!next && !dirty()) {
      vanish();
      return;
    }
    if (!next) {
      put(banner, h("div", { class: "banner warn", id: "key-gone" }, icon("trash"), h("span", null, t(kind === "expire" ? "store.expired" : "store.goneElsewhere"))));
      return;
    }
    if (!dirty()) {
      fill(next);
      el.classList.remove("flash");
      void el.offsetWidth; // a new start of the animation
      el.classList.add("flash");
    } else {
      entry = next;
      drawFacts();
      drawChanged();
    }
    if (versions) loadHistory();
  }

  // vanish takes in that the key is not there any more.
  function vanish() {
    value?.close();
    value = ttl = entry = base = null;
    put(form);
    put(facts);
    drawHead();
    return lookBack();
  }

  // lookBack shows what is known of a key that is not there, and how to have it back.
  async function lookBack() {
    put(banner, h("div", { class: "banner", id: "no-key" }, icon("warn"), h("span", null, t("store.noKey"))));
    await loadHistory();
    if (entry || !versions) return;
    const last = versions.list.find((v) => !v.deleted);
    if (!last) {
      versions = null;
      return put(past);
    }
    const end = versions.list[0];
    const expired = last.expires_ms && end.deleted && end.updated_ms >= last.expires_ms;
    put(banner, h("div", { class: "banner", id: "key-gone" }, icon("trash"),
      h("span", null, t(expired ? "store.expiredAt" : "store.deletedAt", { when: dateTime(end.updated_ms) }), " ", t("store.held"), " ",
        h("span", { class: `type ${last.type}` }, last.type), " ", h("span", { class: "mono" }, valueOf(shorten(last.type, last.value), last.type))),
      button(t("store.restoreLast"), () => restore(last), { kind: "primary", id: "restore-last" })));
  }

  function close() {
    asked?.abort();
    value?.close();
    value = ttl = entry = base = versions = missed = null;
    loading = false;
    ns = key = "";
  }

  // fill shows what the server has and forgets what was typed.
  function fill(got) {
    entry = base = got;
    type = got.type;
    build(got.value);
    put(banner);
    drawFacts();
    drawHistory();
  }

  const id = () => JSON.stringify([ns, key]);

  // resume goes on with what was typed earlier.
  function resume(draft) {
    [base, type] = [draft.base, draft.type];
    build(draft.value);
    if (base.mod !== entry.mod) drawChanged();
  }

  // renew shows what the server has now, if one still looks at that key. What was typed
  // since sent was on its way goes on from it.
  async function renew(wasNs, wasKey, sent) {
    const was = JSON.stringify([wasNs, wasKey]);
    const typed = (now) => Boolean(sent && now) && (now.type !== sent.type || now.value !== sent.value);
    const chosen = () => Boolean(sent) && JSON.stringify(ttl.fields) !== sent.ttl;
    if (!typed(drafts.get(was))) drafts.delete(was);
    if (wasNs !== ns || wasKey !== key || !key) return;
    const got = await api.get(ns, key, asked.signal);
    if (wasNs !== ns || wasKey !== key || got.mod < entry?.mod) return;
    if (typed({ type, value: value.value }) || chosen()) goOn(got, chosen());
    else fill(got);
    if (versions) loadHistory();
  }

  // goOn takes got for what is being edited, and keeps what was typed and, if keepTTL is
  // set, the time to live that was chosen.
  function goOn(got, keepTTL) {
    entry = base = got;
    if (!keepTTL) {
      const fresh = createTTL(base.expires_ms, drawHead);
      ttl.el.replaceWith(fresh.el);
      ttl = fresh;
    }
    put(banner);
    drawFacts();
    drawHead();
  }

  function build(initial) {
    value?.close();
    value = createValue(type, initial, { onInput: drawHead, onSave: save });
    ttl = createTTL(base.expires_ms, drawHead);
    const kind = h("select", { id: "type", on: { change: () => {
      const from = value.value;
      type = kind.value;
      const keptTTL = ttl;
      build(type === base.type ? base.value : startOf(type, from));
      if (keptTTL.changed) {
        ttl.el.replaceWith(keptTTL.el);
        ttl = keptTTL;
      }
      drawHead();
    } } }, TYPES.map((name) => h("option", { value: name, prop: { selected: name === type } }, name)));
    const steps = type === "int" && base.type === "int" ? h("span", { class: "steps" }, button("−1", () => add(-1), { id: "minus", title: t("store.subtract") }), button("+1", () => add(1), { id: "plus", title: t("store.add") })) : null;
    const tidy = value.format ? button(t("editor.format"), value.format, { id: "format-value" }) : null;
    put(form,
      h("div", { class: "fields" }, h("label", { class: "field inline" }, h("span", null, t("store.type")), kind),
        h("div", { class: "field inline" }, h("span", null, t("store.expires")), ttl.el), steps, tidy),
      h("div", { class: `value-area ${type}` }, value.el));
    drawHead();
  }

  function drawHead() {
    if (dirty()) drafts.set(id(), { base, type, value: value.value });
    else drafts.delete(id());
    // What has not changed stays.
    const now = JSON.stringify([ns, key, Boolean(entry), entry?.size, dirty(), saving]);
    if (now === drawn && head.firstChild) return;
    drawn = now;
    put(head,
      button(t("back"), back, { icon: "back", bare: true, kind: "narrow-only", id: "back-keys" }),
      h("div", { class: "titles" }, h("h2", { class: "mono", id: "key-name" }, nameOf(key)),
        h("p", { class: "meta" }, nameOf(ns), entry ? ` · ${bytes(entry.size ?? 0)}` : "", dirty() ? h("span", { class: "badge unsaved" }, t("configs.unsaved")) : null)),
      h("div", { class: "actions" },
        button(t("configs.revert"), () => entry && fill(entry), { id: "revert-key", disabled: !dirty() }),
        button(t("delete"), remove, { icon: "trash", kind: "danger", id: "delete-key", disabled: !entry }),
        button(t("save"), () => save(), { kind: "primary", id: "save-key", disabled: saving || !dirty(), title: "Ctrl+S" })));
  }

  function drawFacts() {
    const fact = (name, text, title) => h("div", { title }, h("dt", null, t(name)), h("dd", null, text));
    put(facts,
      fact("fact.updated", entry.updated_ms ? `${dateTime(entry.updated_ms)} · ${ago(entry.updated_ms)}` : "–"),
      fact("fact.expires", entry.expires_ms ? `${t("ttl.in", { span: span(entry.expires_ms - Date.now()) })} · ${dateTime(entry.expires_ms)}` : t("ttl.never")),
      fact("fact.mod", String(entry.mod), t("fact.modTitle")),
      fact("fact.create", String(entry.create), t("fact.createTitle")),
      fact("fact.version", number(entry.version), t("fact.versionTitle")),
      entry.lease ? fact("fact.lease", String(entry.lease), t("fact.leaseTitle")) : null);
  }

  function drawChanged() {
    put(banner, h("div", { class: "banner warn", id: "key-changed" }, icon("warn"), h("span", null, t("store.changedElsewhere")),
      button(t("configs.compare"), settle, { id: "compare-key" })));
  }

  // ---- history

  function drawHistory() {
    const toggle = h("button", { type: "button", class: "btn fold", id: "history", "aria-expanded": String(versions !== null), on: { click: () => {
      if (versions) {
        versions = null;
        drawHistory();
      } else loadHistory();
    } } }, icon(versions ? "down" : "right"), h("span", null, t("history.title")));
    if (!versions) return put(past, toggle);
    const rows = versions.list.map((v) => h("li", { class: v.deleted ? "version gone" : "version" },
      h("span", { class: "mono rev" }, String(v.mod)), h("span", { class: "when", title: dateTime(v.updated_ms) }, dateTime(v.updated_ms)),
      v.deleted ? h("span", { class: "badge deleted" }, t("state.deleted"))
        : [h("span", { class: `type ${v.type}` }, v.type), h("span", { class: "mono preview" }, valueOf(shorten(v.type, v.value), v.type))],
      v.deleted || v.mod === entry?.mod ? null : h("span", { class: "actions" },
        button(t("history.compare"), () => compare(v)), button(t("history.restore"), () => restore(v), { kind: "restore" }))));
    put(past, toggle, h("ol", { class: "versions", id: "versions" }, rows),
      versions.more ? button(t("more"), moreHistory) : versions.list.length ? null : h("p", { class: "note" }, t("history.none")));
  }

  async function loadHistory() {
    const mine = ++histories;
    try {
      const got = await api.history(ns, key, undefined, 50, asked.signal);
      if (mine !== histories) return;
      versions = { list: got.versions, more: Boolean(got.more) };
      drawHistory();
    } catch (err) {
      sayRefusal(err);
    }
  }

  async function moreHistory() {
    try {
      const got = await api.history(ns, key, versions.list.at(-1).mod, 50, asked.signal);
      versions = { list: [...versions.list, ...got.versions], more: Boolean(got.more) };
      drawHistory();
    } catch (err) {
      sayRefusal(err);
    }
  }

  function compare(version) {
    const now = entry ? valueText(entry.type, entry.value) : "";
    dialog({ title: t("history.compareTitle", { rev: String(version.mod) }), wide: true,
      body: diffView(valueText(version.type, version.value), now, `${t("fact.mod")} ${version.mod} (${version.type})`, `${t("history.now")} (${entry?.type ?? "–"})`),
      actions: [{ label: t("close"), value: null }] });
  }

  async function restore(version) {
    try {
      const [wasNs, wasKey] = [ns, key];
      await api.restore(wasNs, wasKey, version.mod);
      say(t("history.restored", { key: wasKey, rev: String(version.mod) }));
      await renew(wasNs, wasKey);
    } catch (err) {
      sayRefusal(err);
    }
  }

  // ---- writing

  async function save(match) {
    if (!entry || saving || (!dirty() && match === undefined)) return;
    const fault = value.fault || ttl.fault;
    if (fault) return say(fault, "bad");
    const kept = base.lease && !ttl.changed ? { lease: base.lease } : {};
    const wanted = { type, value: value.value, ...ttl.fields, ...kept };
    const sent = { type, value: value.value, ttl: JSON.stringify(ttl.fields) };
    const [wasNs, wasKey] = [ns, key];
    saving = true;
    drawHead();
    try {
      await api.put(ns, key, match === null ? { ...wanted, absent: true } : { ...wanted, match: match ?? base.mod });
      say(t("store.saved", { key: wasKey }));
      await renew(wasNs, wasKey, sent);
    } catch (err) {
      if (err.conflict) settle();
      else sayRefusal(err);
    } finally {
      saving = false;
      if (base) drawHead();
      catchUp();
    }
  }

  // settle asks what to do when somebody else has written the same key.
  async function settle() {
    let theirs = null;
    try {
      theirs = await api.get(ns, key, asked.signal);
    } catch (err) {
      if (err.status !== 404) return sayRefusal(err);
    }
    const choice = await dialog({
      title: t("conflict.title"), id: "conflict", wide: true,
      body: [h("p", null, t(theirs ? "conflict.text" : "conflict.deleted", { name: key })),
        diffView(theirs ? valueText(theirs.type, theirs.value) : "", valueText(type, value.value), t("conflict.theirs"), t("conflict.mine"))],
      actions: [
        { label: t("conflict.take"), value: "take", id: "conflict-take" },
        { label: t("conflict.overwrite"), value: "overwrite", kind: "danger", id: "conflict-overwrite" },
        { label: t("conflict.edit"), value: "edit", id: "conflict-edit", main: true },
      ],
    });
    if (choice === "take") theirs ? fill(theirs) : back();
    if (choice === "overwrite") save(theirs ? theirs.mod : null);
  }

  async function add(by) {
    try {
      const [wasNs, wasKey] = [ns, key];
      await api.incr(wasNs, wasKey, by);
      await renew(wasNs, wasKey);
    } catch (err) {
      sayRefusal(err);
    }
  }

  async function remove() {
    const name = key, known = entry;
    if (!known) return;
    const gone = await confirm({ title: t("store.deleteTitle", { key }), text: t("store.deleteAsk"), action: t("delete"), submit: () => api.remove(ns, name, (entry ?? known).mod) });
    if (!gone) return;
    say(t("store.deletedNow", { key: name }));
    if (entry && name === key) await vanish();
  }

  return {
    el,
    show,
    close,
    get key() {
      return key;
    },
    hear,
    tick: () => entry?.expires_ms && drawFacts(),
  };
}
