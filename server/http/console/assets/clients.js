// The page of programs that are connected, and of who follows a stream by HTTP.

import { clients as ask, configs } from "./api.js";
import { refusalText } from "./dialogs.js";
import { button, h, icon, put, putScrolled } from "./dom.js";
import { ago, dateTime, span, t } from "./i18n.js";
import { createList } from "./list.js";
import { name as nameOf } from "./names.js";
import { table } from "./tables.js";

const INTERVAL = 2000;
const narrow = matchMedia("(max-width: 760px)");

export function open(main) {
  let all = [];
  let streams = [];
  let versions = new Map(); // of files, as the server lists them
  let chosen = null; // an id
  const gone = new AbortController();

  const filter = h("input", { type: "search", id: "client-filter", placeholder: t("clients.filter"), "aria-label": t("clients.filter"), on: { input: draw } });
  const count = h("span", { id: "client-count", role: "status" });
  const note = h("p", { class: "note" });
  const detail = h("section", { class: "pane detail client", hidden: true });
  const list = createList({
    label: t("page.clients"), id: "clients", rowHeight: () => (narrow.matches ? 64 : 36), row: (item) => (item.kind ? streamRow(item) : row(item)),
    choose: (item) => item.kind || go(item.id),
  });
  const heading = h("div", { class: "client-row list-head", "aria-hidden": "true" },
    ["name", "id", "tag", "address", "since", "main", "subscriptions"].map((name) => h("span", { class: `c-${name}` }, t(`clients.${name}`))));
  const split = h("div", { class: "split clients", data: { pane: "list" } },
    h("section", { class: "pane keys" }, h("div", { class: "pane-tools" }, h("div", { class: "search" }, icon("search"), filter), count), heading, note, list.el), detail);
  put(main, split);

  // A subscription may leave .json off.
  const fileOf = (sub) => (versions.has(sub.file) ? sub.file : `${sub.file}.json`);
  const behind = (sub) => sub.told < versions.get(fileOf(sub))?.mtime;

  // revision is that of the version of which a subscriber was told: of the file, or with what it
  // inherits; 0 if it is an older one.
  function revision({ told }, file) {
    if (told >= file?.resolved_mtime) return file.resolved_revision ?? 0;
    return told >= file?.mtime ? file.revision ?? 0 : 0;
  }

  function told(sub) {
    if (!sub.told) return t("clients.toldNothing");
    const file = versions.get(fileOf(sub)), rev = revision(sub, file);
    return [h("span", { title: dateTime(sub.told * 1000) }, rev ? String(rev) : t("clients.older")), " ",
      behind(sub) ? h("span", { class: "badge broken" }, t("clients.behind", { rev: String(file.revision ?? "") })) : file ? h("span", { class: "badge good" }, t("clients.newest")) : null];
  }

  function row(client) {
    const late = client.subscriptions.filter(behind).length;
    return h("div", { class: "client-row" }, h("span", { class: "c-name" }, h("b", null, client.name ? nameOf(client.name) : "–")), h("span", { class: "c-id" }, String(client.id)),
      h("span", { class: "c-tag" }, client.tag ? h("span", { class: "badge" }, nameOf(client.tag)) : "–"), h("span", { class: "c-address mono" }, client.address),
      h("span", { class: "c-since", title: dateTime(client.since_ms) }, ago(client.since_ms)), h("span", { class: "c-main mono" }, client.main ? nameOf(client.main) : "–"),
      h("span", { class: "c-subscriptions" }, String(client.subscriptions.length + (client.more ?? 0)), late ? h("span", { class: "badge broken" }, t("clients.late", { n: late })) : null,
        client.watches ? h("span", { class: "badge" }, t("clients.watching", { n: client.watches })) : null,
        client.locks.length ? h("span", { class: "badge" }, t("clients.locking", { n: client.locks.length })) : null));
  }

  function streamRow(stream) {
    return h("div", { class: "client-row stream" }, h("span", { class: "c-name" }, t(`stream.${stream.kind}`)), h("span", { class: "c-id" }, ""),
      h("span", { class: "c-tag" }, h("span", { class: "badge new" }, "HTTP")), h("span", { class: "c-address mono" }, stream.address),
      h("span", { class: "c-since", title: dateTime(stream.since_ms) }, ago(stream.since_ms)), h("span", { class: "c-main mono" }, wanted(stream)), h("span", { class: "c-subscriptions" }, ""));
  }

  // wanted says which keys somebody follows.
  function wanted({ kind, ns, key, prefix }) {
    if (kind === "config") return key ? nameOf(key) : prefix ? [nameOf(prefix), "…"] : t("clients.allFiles");
    if (!ns) return t("clients.allNamespaces");
    return [nameOf(ns), key ? [" / ", nameOf(key)] : prefix ? [" / ", nameOf(prefix), "…"] : ` / ${t("clients.allKeys")}`];
  }

  function draw() {
    const text = filter.value.trim().toLowerCase();
    const has = (...texts) => texts.some((one) => (one ?? "").toLowerCase().includes(text));
    const named = (one) => has(one.ns, one.key, one.prefix);
    const shown = all.filter((c) => has(c.name, c.tag, c.address, c.main, String(c.id)) || c.subscriptions.some((s) => has(s.file)) || c.watching.some(named) || c.locks.some(named));
    const following = streams.filter((s) => has(s.address, t(`stream.${s.kind}`)) || named(s));
    list.set([...shown, ...following]);
    list.select((item) => !item.kind && item.id === chosen);
    put(count, t("clients.count", { n: all.length }), streams.length ? ` · ${t("clients.streams", { n: streams.length })}` : null);
    put(note, all.length ? (shown.length + following.length ? null : t("clients.noMatch")) : streams.length ? null : t("clients.none"));
    drawDetail();
  }

  function section(id, title, none, columns, rows) {
    return [h("h3", { class: "section-title" }, title),
      rows.length ? table(columns.map((name) => t(`clients.${name}`)), rows, { id }) : none ? h("p", { class: "note" }, none) : null];
  }

  const keyLink = (ns, key) => h("a", { class: "mono", href: `#/store/${encodeURIComponent(ns)}/${encodeURIComponent(key)}` }, nameOf(ns), " / ", nameOf(key));

  function sections(client) {
    return [
      section("subscriptions", t("clients.subscriptions"), t("clients.noSubscriptions"), ["file", "told"], client.subscriptions.map((sub) => [
        h("span", { class: "mono" }, h("a", { href: link(fileOf(sub)) }, nameOf(sub.file)), sub.path ? [" ", nameOf(sub.path)] : ""),
        told(sub)])),
      client.more ? h("p", { class: "note" }, t("clients.more", { n: client.more })) : null,
      section("watches", t("clients.watches"), t("clients.noWatches"), ["keys"], client.watching.map((watch) => [h("span", { class: "mono" }, wanted(watch))])),
      client.watches > client.watching.length ? h("p", { class: "note" }, t("clients.more", { n: client.watches - client.watching.length })) : null,
      section("locks", t("clients.locks"), t("clients.noLocks"), ["lock", "state"], client.locks.map((lock) => [keyLink(lock.ns, lock.key),
        lock.fence ? [h("span", { class: "badge good" }, t("clients.held")), " ", t("clients.fence", { fence: String(lock.fence) })] : h("span", { class: "badge unsaved" }, t("clients.waiting"))])),
      section("leases", t("clients.leases"), t("clients.noLeases"), ["lease", "leaseLeft", "leaseKeys"], client.leases.map((lease) => [h("span", { class: "mono" }, String(lease.id)),
        t("clients.leftOf", { left: span(lease.left_ms, 1), ttl: span(lease.ttl_ms, 1) }), String(lease.keys)])),
    ];
  }

  function drawDetail() {
    detail.hidden = chosen === null;
    split.dataset.pane = chosen === null ? "list" : "detail";
    if (chosen === null) return;
    const client = all.find((c) => c.id === chosen);
    const fact = (name, value, title) => h("div", { title }, h("dt", null, t(`clients.${name}`)), h("dd", null, value));
    putScrolled(detail, h("div", { class: "detail-head" }, button(t("back"), () => go(), { icon: "back", bare: true, id: "back-clients" }),
      h("div", { class: "titles" }, h("h2", null, client ? (client.name ? nameOf(client.name) : "–") : String(chosen)), h("p", { class: "meta" }, client?.address ?? t("clients.left")))),
    client ? h("div", { class: "entry-scroll" },
      h("dl", { class: "facts" }, fact("id", String(client.id)), fact("tag", client.tag ? nameOf(client.tag) : "–"), fact("since", `${dateTime(client.since_ms)} · ${ago(client.since_ms)}`),
        fact("main", client.main ? h("a", { href: link(client.main) }, nameOf(client.main)) : "–")),
      sections(client)) : null);
  }

  async function load() {
    if (document.hidden) return;
    try {
      const [answer, { files }] = await Promise.all([ask(gone.signal), configs.list(gone.signal)]);
      all = answer.clients.map((client) => ({ ...client, subscriptions: client.subscriptions ?? [], watching: client.watching ?? [], locks: client.locks ?? [], leases: client.leases ?? [] }));
      streams = answer.streams ?? [];
      versions = new Map(files.map((file) => [file.name, file]));
      draw();
    } catch (err) {
      if (err.name !== "AbortError") put(note, refusalText(err));
    }
  }

  const timer = setInterval(load, INTERVAL);
  const onNarrow = () => list.refresh();
  narrow.addEventListener("change", onNarrow);
  load();
  return {
    show(id) {
      chosen = id ? Number(id) : null;
      draw();
    },
    close() {
      clearInterval(timer);
      gone.abort();
      narrow.removeEventListener("change", onNarrow);
      list.close();
    },
  };
}

const link = (name) => `#/configs/${encodeURIComponent(name)}`;

function go(id) {
  location.hash = id === undefined ? "#/clients" : `#/clients/${id}`;
}
