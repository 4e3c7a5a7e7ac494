// Where in the files a text stands: the server looks, each time the question has
// not changed for a moment.

import { configs as api } from "./api.js";
import { refusalText } from "./dialogs.js";
import { debounce, h, icon, put } from "./dom.js";
import { t } from "./i18n.js";
import { createList } from "./list.js";
import { json, name as nameOf } from "./names.js";

// createHits makes the list. open is called with the name of a file.
export function createHits({ rowHeight, open }) {
  let asked = null; // aborts the search under way
  let wanted = "";
  const list = createList({
    label: t("configs.hits"), id: "hits", rowHeight,
    row: (item) => (item.path === undefined
      ? h("div", { class: `tree-row file ${item.state}`, title: item.name }, icon("file"), h("span", { class: "tree-name" }, nameOf(item.name)), h("span", { class: "count" }, String(item.count)))
      : h("div", { class: "tree-row hit mono", title: item.path || "/" }, h("span", { class: "hit-path" }, nameOf(item.path || "/")), h("span", { class: "hit-text" }, json(item.text)))),
    choose: (item) => open(item.name),
  });
  const note = h("p", { class: "note", id: "hits-note", role: "status" });
  const el = h("div", { class: "hits", hidden: true }, note, list.el);

  const ask = debounce(250, async () => {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    try {
      const { files, more } = await api.search(wanted, signal);
      list.set(files.flatMap((file) => [{ name: file.name, state: file.state, count: file.matches.length + file.more },
        ...file.matches.map((match) => ({ name: file.name, ...match }))]));
      put(note, more ? t("configs.hitsPart", { n: files.length }) : files.length ? t("configs.count", { n: files.length }) : t("configs.hitsNone"));
    } catch (err) {
      if (err.name !== "AbortError") put(note, refusalText(err));
    }
  });

  return {
    el,
    // search looks for text, "" for nothing.
    search(text) {
      el.hidden = text === "";
      if (text === wanted) return;
      wanted = text;
      asked?.abort();
      if (text) {
        put(note, t("searching"));
        ask();
      } else {
        ask.cancel();
        list.set([]);
      }
    },
    // again asks once more, because a file has changed.
    again: () => wanted && ask(),
    close() {
      ask.cancel();
      asked?.abort();
      list.close();
    },
  };
}
