// Lines of text and of differences, of any number: only those in sight exist.

import { h } from "./dom.js";
import { t } from "./i18n.js";
import { createList } from "./list.js";
import { diffLines, near } from "./merge.js";
import { json, name as nameOf } from "./names.js";

const LONG = 2000; // characters of a line that are shown
const SIGNS = { left: "−", right: "+" };

const short = (text) => json(text.length > LONG ? `${text.slice(0, LONG)}…` : text);

// createLines makes the list; nearEnd is called when its last rows come in sight. Items are
// {text, kind}, with kind left, right, same or gap if it is of a difference, or {path, what, old, new} of a value.
export function createLines({ label, id, nearEnd }) {
  const list = createList({ label, id, rowHeight: 20, nearEnd, row: (item) => (item.path === undefined ? lineRow(item) : pathRow(item)) });
  list.el.classList.add("lines", "mono");
  return list;
}

function lineRow({ text, kind }) {
  const sign = kind === undefined || kind === "gap" ? null : h("span", { class: "diff-sign" }, SIGNS[kind] ?? " ");
  return h("div", { class: kind ? `line-row diff-${kind}` : "line-row" }, sign, short(text) || " ");
}

function pathRow(item) {
  const part = (kind, text, length) => (text === undefined && !length ? null
    : h("span", { class: `diff-${kind}` }, text === undefined ? t("past.longValue", { n: length }) : short(text)));
  return h("div", { class: "line-row path-row", data: { path: item.path } }, h("span", { class: "diff-sign" }, { added: "+", removed: "−", changed: "~" }[item.what] ?? "?"),
    h("span", { class: "path" }, nameOf(item.path || "/")), part("left", item.old, item.old_length), item.what === "changed" ? "→" : null, part("right", item.new, item.new_length));
}

// unified are the lines of a unified diff without its head.
export function unified(text) {
  const kinds = { "-": "left", "+": "right", "@": "gap" };
  return text.split("\n").map((line) => ({ text: line[0] === "@" ? line : line.slice(1), kind: kinds[line[0]] ?? "same" }));
}

// differing are the rows of the difference of two texts.
export const differing = (left, right) => near(diffLines(left.replace(/\n$/, "").split("\n"), right.replace(/\n$/, "").split("\n")));

// diffView shows two texts line by line: what only the left has, what only the
// right has, and a few lines around.
export function diffView(left, right, leftTitle, rightTitle) {
  const rows = differing(left, right);
  const list = createLines({ label: t("history.compare") });
  list.el.classList.add("diff-lines");
  list.set(rows.length ? rows : [{ text: t("diff.none"), kind: "gap" }]);
  return h("div", { class: "diff" },
    h("div", { class: "diff-legend" }, h("span", { class: "diff-left" }, `− ${leftTitle}`), h("span", { class: "diff-right" }, `+ ${rightTitle}`)), list.el);
}
