// Where a value comes from: which files have a say in it, which of them wins, and who changed it
// last.

import { past as api } from "./api.js";
import { dialog, refusalText } from "./dialogs.js";
import { h, put } from "./dom.js";
import { dateTime, t } from "./i18n.js";
import { createList } from "./list.js";
import { json, name as nameOf } from "./names.js";
import { openVersion, who } from "./past.js";
import { problemText } from "./problems.js";
import { table } from "./tables.js";

const LONG = 400; // characters of a value that are shown
const ROW = 48; // px

function valueOf({ value, length }) {
  if (value === undefined) return length ? t("past.longValue", { n: length }) : "–";
  return h("span", { class: "mono" }, json(value.length > LONG ? `${value.slice(0, LONG)}…` : value));
}

// explain opens the answer for what is at a path of a document. open is called with the name of
// a file that is chosen, restored with that of one that is as it was again.
export function explain(name, path, { open, restored }) {
  const gone = new AbortController();
  const says = h("div", { class: "says", id: "says", tabindex: "-1", autofocus: true }, // or a held Enter would close it again
    h("p", { class: "note" }, t("loading")));
  const note = h("p", { class: "note", id: "blame-note", role: "status" }, t("loading"));
  const blamed = createList({ label: t("blame.title"), id: "blamed", rowHeight: ROW, row: blamedRow, choose: (key) => show(key) });
  blamed.el.hidden = true;

  const shut = () => says.closest("dialog")?.close();
  const link = (file) => h("button", { type: "button", class: "link", on: { click: () => {
    shut();
    open(file);
  } } }, nameOf(file));

  async function tell() {
    try {
      const answer = await api.explain(name, path, gone.signal);
      put(says,
        h("p", { id: "explained" }, answer.winner ? [h("b", null, valueOf(answer)), " ", t("explain.from"), " ", link(answer.winner)] : t("explain.nothing"),
          answer.merge === "none" ? null : h("span", { class: "hint" }, " · ", t(`merge.${answer.merge}`))),
        table(["file", "role", "value"].map((head) => t(`explain.${head}`)), answer.files.map((file) => h("tr", { class: `role-${file.role}`, data: { file: file.name } }, h("td", null, link(file.name)),
          h("td", null, h("span", { class: file.role === "wins" ? "badge good" : "badge" }, t(`role.${file.role}`)), h("div", { class: "hint" }, nameOf(problemText(file.why)))),
          h("td", null, valueOf(file)))).reverse()));
    } catch (err) {
      if (err.name !== "AbortError") put(says, h("p", { class: "note" }, refusalText(err)));
    }
  }

  async function blame() {
    const answer = await told(() => api.blame(name, path, gone.signal));
    if (!answer) return;
    blamed.el.hidden = false;
    blamed.el.style.height = `${Math.min(answer.keys.length, 5) * ROW + 2}px`;
    blamed.set(answer.keys);
    put(note, t("blame.last", { n: answer.keys.length }), answer.next ? ` ${t("blame.part")}` : "", answer.keys.some((key) => key.earlier) ? ` ${t("blame.earlier")}` : "");
  }

  // show opens the change that is blamed.
  async function show(key) {
    const log = await told(() => api.log(key.file, key.revision + 1, 1, gone.signal));
    if (log?.changes.length) openVersion(key.file, log.changes[0], { restored });
  }

  async function told(ask) {
    try {
      return await ask();
    } catch (err) {
      if (err.name !== "AbortError") put(note, refusalText(err));
      return null;
    }
  }

  tell();
  blame();
  return dialog({
    title: t("explain.title", { path: path || "/", name }), id: "explain", wide: true,
    body: [says, h("h3", { class: "section-title" }, t("blame.title")), note, blamed.el],
    actions: [{ label: t("close"), value: null, id: "explain-close" }],
  }).finally(() => {
    gone.abort();
    blamed.close();
  });
}

function blamedRow(key) {
  return h("div", { class: "past-row", data: { path: key.path } },
    h("div", { class: "past-line" }, h("span", { class: "mono" }, nameOf(key.path || "/")), h("span", { class: "dim" }, nameOf(key.file)), h("time", { class: "meta" }, dateTime(key.time))),
    h("div", { class: "past-line" }, h("b", { class: "past-who" }, nameOf(who(key))), h("span", { class: "mono dim" }, String(key.revision)), h("span", { class: key.comment ? "past-why" : "past-why dim" }, key.comment ? nameOf(key.comment) : t("past.noComment"))));
}
