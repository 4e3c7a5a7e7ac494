// Which programs use a file, and of which revision they were told.

import { past as api } from "./api.js";
import { refusalText } from "./dialogs.js";
import { h, put } from "./dom.js";
import { dateTime, t } from "./i18n.js";
import { name as nameOf } from "./names.js";
import { fillTable, table } from "./tables.js";

const INTERVAL = 2000;

// createUses makes the list. show has it follow a file; without a name it follows nothing.
export function createUses() {
  let name = "", asking = null;
  const note = h("p", { class: "note", id: "uses-note", role: "status" });
  const all = table(["name", "address", "file", "told"].map((column) => t(`clients.${column}`)), [], { id: "uses", hidden: true });
  const el = h("div", { class: "side-uses" }, note, h("div", { class: "entry-scroll", tabindex: "0" }, all));

  async function load() {
    if (!name || document.hidden) return;
    asking?.abort();
    const mine = asking = new AbortController();
    try {
      const { programs, uses, mtime, revision } = await api.uses(name, mine.signal);
      put(note, t("uses.count", { n: programs }));
      all.hidden = uses.length === 0;
      fillTable(all, uses.map((use) => h("tr", null, h("td", null, h("a", { href: `#/clients/${use.id}` }, use.name ? nameOf(use.name) : String(use.id)), use.tag ? [" ", h("span", { class: "badge" }, nameOf(use.tag))] : null),
        h("td", { class: "mono" }, use.address), h("td", { class: "mono" }, nameOf(use.file), use.path ? [" ", nameOf(use.path)] : null),
        h("td", null, told(use, mtime, revision)))));
    } catch (err) {
      if (err.name === "AbortError" || asking !== mine) return;
      all.hidden = true;
      put(note, refusalText(err));
    }
  }

  // told says of which revision.
  function told(use, mtime, revision) {
    if (!use.told) return t(use.main ? "uses.main" : "clients.toldNothing");
    return [h("span", { title: dateTime(use.told * 1000) }, use.revision ? String(use.revision) : t("clients.older")),
      use.file === name && use.told < mtime ? [" ", h("span", { class: "badge broken" }, t("clients.behind", { rev: String(revision) }))] : null];
  }

  const timer = setInterval(load, INTERVAL);
  return {
    el,
    show(which) {
      if (which !== name) {
        put(note, which ? t("loading") : null);
        all.hidden = true;
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
