// Tables. On a narrow screen each row is a block, with the head of its column before each cell, so
// that nothing of it is out of sight.

import { h, put } from "./dom.js";

// table makes one with these heads. A row is an element, or a list of cells; a cell is an element
// td, or what is in one.
export function table(heads, rows, props) {
  const el = h("table", { class: "table", ...props }, h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody"));
  fillTable(el, rows);
  return el;
}

// fillTable replaces the rows.
export function fillTable(el, rows) {
  const heads = [...el.tHead.rows[0].cells].map((cell) => cell.textContent);
  put(el.tBodies[0], rows.map((row) => {
    const tr = row instanceof Element ? row : h("tr", null, row.map((cell) => (cell instanceof HTMLTableCellElement ? cell : h("td", null, cell))));
    for (const cell of tr.cells) if (heads[cell.cellIndex]) cell.dataset.head = heads[cell.cellIndex];
    return tr;
  }));
}

// scrolled is a table in a box that scrolls it, by the keyboard, too.
export const scrolled = (label, ...content) => h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": label }, content);
