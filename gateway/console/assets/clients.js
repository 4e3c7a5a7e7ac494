// The page of programs that are connected.

import { clients as ask, configs } from "./api.js";
import { refusalText } from "./dialogs.js";
import { button, h, icon, put } from "./dom.js";
import { ago, dateTime, t } from "./i18n.js";
import { createList } from "./list.js";

const INTERVAL = 2000;
const narrow = matchMedia("(max-width: 760px)");

export function open(main) {
  let all = [];
  let versions = new Map(); // file → its mtime
  let chosen = null; // an id
  const gone = new AbortController();

  const filter = h("input", { type: "search", id: "client-filter", placeholder: t("clients.filter"), "aria-label": t("clients.filter"), on: { input: draw } });
  const count = h("span", { id: "client-count", role: "status" });
  const note = h("p", { class: "note" });
  const detail = h("section", { class: "pane detail client", hidden: true });
  const list = createList({
    label: t("page.clients"), id: "clients", rowHeight: () => (narrow.matches ? 64 : 36), row,
    choose: (client) => go(client.id),
  });
  const heading = h("div", { class: "client-row list-head", "aria-hidden": "true" },
    ["name", "id", "tag", "address", "since", "main", "subscriptions"].map((name) => h("span", { class: `c-${name}` }, t(`clients.${name}`))));
  const split = h("div", { class: "split clients", data: { pane: "list" } },
    h("section", { class: "pane keys" }, h("div", { class: "pane-tools" }, h("div", { class: "search" }, icon("search"), filter), count), heading, note, list.el), detail);
  put(main, split);

  // A subscription may leave .json off.
  const fileOf = (sub) => (versions.has(sub.file) ? sub.file : `${sub.file}.json`);
  const behind = (sub) => versions.has(fileOf(sub)) && sub.told < versions.get(fileOf(sub));

  function row(client) {
    const late = client.subscriptions.filter(behind).length;
    return h("div", { class: "client-row" }, h("span", { class: "c-name" }, h("b", null, client.name || "–")), h("span", { class: "c-id" }, String(client.id)),
      h("span", { class: "c-tag" }, client.tag ? h("span", { class: "badge" }, client.tag) : "–"), h("span", { class: "c-address mono" }, client.address),
      h("span", { class: "c-since", title: dateTime(client.since_ms) }, ago(client.since_ms)), h("span", { class: "c-main mono" }, client.main || "–"),
      h("span", { class: "c-subscriptions" }, String(client.subscriptions.length + (client.more ?? 0)), late ? h("span", { class: "badge broken" }, t("clients.late", { n: late })) : null));
  }

  function draw() {
    const wanted = filter.value.trim().toLowerCase();
    const shown = all.filter((c) => [c.name, c.tag, c.address, c.main, String(c.id)].some((text) => text.toLowerCase().includes(wanted)) || c.subscriptions.some((s) => s.file.toLowerCase().includes(wanted)));
    list.set(shown);
    list.select((client) => client.id === chosen);
    put(count, t("clients.count", { n: all.length }));
    put(note, all.length ? (shown.length ? null : t("clients.noMatch")) : t("clients.none"));
    drawDetail();
  }

  function drawDetail() {
    detail.hidden = chosen === null;
    split.dataset.pane = chosen === null ? "list" : "detail";
    if (chosen === null) return;
    const client = all.find((c) => c.id === chosen);
    const fact = (name, value, title) => h("div", { title }, h("dt", null, t(`clients.${name}`)), h("dd", null, value));
    const focused = detail.contains(document.activeElement) ? document.activeElement.id : "";
    put(detail, h("div", { class: "detail-head" }, button(t("back"), () => go(), { icon: "back", bare: true, id: "back-clients" }),
      h("div", { class: "titles" }, h("h1", null, client ? client.name || "–" : String(chosen)), h("p", { class: "meta" }, client?.address ?? t("clients.left")))),
    client ? h("div", { class: "entry-scroll" },
      h("dl", { class: "facts" }, fact("id", String(client.id)), fact("tag", client.tag || "–"), fact("since", `${dateTime(client.since_ms)} · ${ago(client.since_ms)}`),
        fact("main", client.main ? h("a", { href: link(client.main) }, client.main) : "–"), client.watches ? fact("watches", String(client.watches)) : null),
      h("h2", { class: "section-title" }, t("clients.subscriptions")),
      client.subscriptions.length ? h("table", { class: "table" }, h("thead", null, h("tr", null, h("th", null, t("clients.file")), h("th", null, t("clients.told")))),
        h("tbody", null, client.subscriptions.map((sub) => h("tr", null,
          h("td", { class: "mono" }, h("a", { href: link(fileOf(sub)) }, sub.file), sub.path ? ` ${sub.path}` : ""),
          h("td", null, sub.told ? h("span", { title: dateTime(sub.told * 1000) }, String(sub.told)) : t("clients.toldNothing"),
            " ", behind(sub) ? h("span", { class: "badge broken" }, t("clients.behind", { mtime: String(versions.get(fileOf(sub))) }))
              : sub.told && versions.has(fileOf(sub)) ? h("span", { class: "badge good" }, t("clients.current")) : null)))))
        : h("p", { class: "note" }, t("clients.noSubscriptions"))) : null);
    if (focused) document.getElementById(focused)?.focus();
  }

  async function load() {
    if (document.hidden) return;
    try {
      const [{ clients }, { files }] = await Promise.all([ask(gone.signal), configs.list(gone.signal)]);
      all = clients.map((client) => ({ ...client, subscriptions: client.subscriptions ?? [] }));
      versions = new Map(files.map((file) => [file.name, file.mtime]));
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
