// Which programs use a file, and of which version they were told.

import { past as api } from "./api.js";
import { refusalText } from "./dialogs.js";
import { h, put } from "./dom.js";
import { dateTime, t } from "./i18n.js";
import { name as nameOf } from "./names.js";

const INTERVAL = 2000;

// createUses makes the list. show has it follow a file; without a name it follows nothing.
export function createUses() {
  let name = "", asking = null;
  const note = h("p", { class: "note", id: "uses-note", role: "status" });
  const rows = h("tbody");
  const table = h("table", { class: "table", id: "uses", hidden: true },
    h("thead", null, h("tr", null, ["name", "address", "file", "told"].map((column) => h("th", null, t(`clients.${column}`))))), rows);
  const el = h("div", { class: "side-uses" }, note, h("div", { class: "entry-scroll" }, table));

  async function load() {
    if (!name || document.hidden) return;
    asking?.abort();
    const mine = asking = new AbortController();
    try {
      const { programs, uses, mtime } = await api.uses(name, mine.signal);
      put(note, t("uses.count", { n: programs }));
      table.hidden = uses.length === 0;
      put(rows, uses.map((use) => h("tr", null, h("td", null, h("a", { href: `#/clients/${use.id}` }, use.name ? nameOf(use.name) : String(use.id)), use.tag ? [" ", h("span", { class: "badge" }, nameOf(use.tag))] : null),
        h("td", { class: "mono" }, use.address), h("td", { class: "mono" }, nameOf(use.file), use.path ? [" ", nameOf(use.path)] : null),
        h("td", null, told(use, mtime)))));
    } catch (err) {
      if (err.name === "AbortError" || asking !== mine) return;
      table.hidden = true;
      put(note, refusalText(err));
    }
  }

  // told says of which version; of one that inherits from the file that version is its own.
  function told(use, mtime) {
    if (!use.told) return t(use.main ? "uses.main" : "clients.toldNothing");
    return [h("span", { title: dateTime(use.told * 1000) }, String(use.told)), use.file === name && use.told < mtime ? [" ", h("span", { class: "badge broken" }, t("clients.behind", { mtime: String(mtime) }))] : null];
  }

  const timer = setInterval(load, INTERVAL);
  return {
    el,
    show(which) {
      if (which !== name) {
        put(note, which ? t("loading") : null);
        table.hidden = true;
      }
      name = which;
      load();
    },
    close() {
      clearInterval(timer);
      asking?.abort();
    },
  };
}
