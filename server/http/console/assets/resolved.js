// The document as programs get it, line by line, with the file each key came from.

import { h } from "./dom.js";
import { t } from "./i18n.js";
import { pointer, read } from "./json.js";
import { createList } from "./list.js";
import { isolated, json, name as nameOf } from "./names.js";

const HUES = 6; // colours of origins in the style sheet

// createResolved makes the view. open is called with the name of a file whose mark is clicked on,
// explain with the path of a value.
export function createResolved({ open, explain }) {
  let own = "";
  const hues = new Map();
  const hue = (name) => {
    if (!hues.has(name)) hues.set(name, hues.size % HUES);
    return hues.get(name);
  };
  const list = createList({
    label: t("configs.resolved"), id: "resolved", rowHeight: 22,
    row(line) {
      const indent = h("span", { class: "rs-text" }, line.key === null ? null : [h("span", { class: "tk-key" }, json(JSON.stringify(line.key))), ": "],
        h("span", { class: line.kind ? `tk-${line.kind}` : null }, json(line.text.length > 400 ? `${line.text.slice(0, 400)}…` : line.text)), line.comma ? "," : "");
      indent.style.paddingInlineStart = `${line.depth * 20}px`;
      return h("div", { class: "rs-row", data: { pointer: line.pointer ?? "" } }, indent, line.origin ? chip(line.origin) : null);
    },
    choose(line, index, event) {
      const name = event.type === "click" ? event.target.closest(".origin")?.dataset.name : "";
      if (name && name !== own) open(name);
      else if (line.pointer !== undefined) explain(line.pointer);
    },
  });

  function chip(name) {
    const mine = name === own;
    return h("span", { class: `origin ${mine ? "own" : `hue-${hue(name)}`}`, data: { name }, title: mine ? isolated(name) : t("configs.open", { name }) },
      mine ? t("configs.here") : nameOf(name));
  }

  return {
    el: list.el,
    // show takes the document's text and the origins by JSON pointer.
    show(name, text, origins) {
      own = name;
      hues.clear();
      list.set(linesOf(text, origins));
    },
    clear: () => list.set([]),
    close: list.close,
  };
}

function linesOf(text, origins) {
  const { root } = read(text);
  const lines = [];
  if (!root) return lines;
  const walk = (node, depth, key, at, comma, above) => {
    const mine = Object.hasOwn(origins, at) ? origins[at] : null;
    // What came whole from one file says so once, at its top.
    const origin = mine === above ? null : mine;
    const parts = node.members ?? node.items;
    const line = { depth, key, pointer: at, origin, kind: "mark", comma: false };
    if (!parts || !parts.length) {
      const kind = { string: "string", number: "number", true: "word", false: "word", null: "word" }[node.kind] ?? "mark";
      lines.push({ ...line, text: parts ? (node.members ? "{}" : "[]") : text.slice(node.start, node.end), kind, comma });
      return;
    }
    const [opening, closing] = node.members ? "{}" : "[]";
    lines.push({ ...line, text: opening });
    parts.forEach((part, i) => {
      const below = node.members ? part.value : part;
      walk(below, depth + 1, node.members ? part.key : null, pointer(at, node.members ? part.key : i), i + 1 < parts.length, mine ?? above);
    });
    lines.push({ depth, key: null, text: closing, kind: "mark", comma });
  };
  walk(root, 0, null, "", false, null);
  return lines;
}
