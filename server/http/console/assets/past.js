// What a file was: who changed it, when and why, what differs between any two of its
// revisions, and how to have one of them back.

import { past as api, sign } from "./api.js";
import { dialog, refusalText, say } from "./dialogs.js";
import { button, h, put } from "./dom.js";
import { bytes, dateTime, has, remember, remembered, t } from "./i18n.js";
import { format, read } from "./json.js";
import { createLines, unified } from "./lines.js";
import { createList } from "./list.js";
import { name as nameOf, shown } from "./names.js";
import * as session from "./session.js";

const PAGE = 100;
const TIDY = 4 << 20; // characters; longer documents are shown as they are

const way = (by) => (has(`origin.${by.origin}`) ? t(`origin.${by.origin}`) : by.origin ?? "");

// who is who made a change, and the way that it came.
export const who = (by) => [by.author || by.peer || t("past.nobody"), way(by)].filter(Boolean).join(" · ");

// createPast makes the list of a file's versions. restored is called with its name when one
// of them is back.
export function createPast({ restored }) {
  let name = "", next = 0, asking = null, newest = 0;
  const note = h("p", { class: "note", id: "past-note", role: "status" });
  const list = createList({
    label: t("past.title"), id: "past", rowHeight: 48, row: versionRow, nearEnd: () => next && !asking && more(),
    choose: (change) => openVersion(name, change, { current: change.revision === newest, restored }),
  });

  async function more() {
    const mine = (asking = new AbortController());
    try {
      const answer = await api.log(name, next, PAGE, mine.signal);
      if (mine !== asking) return;
      const all = next ? [...list.items, ...answer.changes] : answer.changes;
      newest = all[0]?.revision ?? 0;
      next = answer.next ?? 0;
      asking = null;
      list.set(all);
      put(note, all.length ? null : t("past.none"), answer.compacted ? t("past.compacted") : null);
    } catch (err) {
      if (err.name === "AbortError" || mine !== asking) return;
      asking = null;
      next = 0;
      list.set([]);
      put(note, err.status === 404 ? t("past.none") : refusalText(err));
    }
  }

  return {
    el: h("div", { class: "past" }, note, list.el),
    // show lists the versions of a file, "" for none.
    show(wanted) {
      asking?.abort();
      asking = null;
      if (wanted !== name) list.set([]);
      name = wanted;
      next = 0;
      put(note);
      if (name) more();
    },
    close() {
      asking?.abort();
      list.close();
    },
  };
}

function versionRow(change) {
  const [document] = change.documents;
  return h("div", { class: "past-row", data: { revision: change.revision } },
    h("div", { class: "past-line" }, h("span", { class: `badge kind-${document.kind}` }, t(`kind.${document.kind}`)), h("b", { class: "past-who" }, nameOf(who(change))),
      h("time", { class: "meta" }, dateTime(change.time))),
    h("div", { class: "past-line" }, h("span", { class: "mono dim" }, String(change.revision)), h("span", { class: change.comment ? "past-why" : "past-why dim" }, change.comment ? nameOf(change.comment) : t("past.noComment"))));
}

// facts are what is known of a change.
export function facts(change) {
  const [document] = change.documents;
  const rows = [["who", change.author], ["when", dateTime(change.time)], ["why", change.comment], ["origin", way(change)],
    ["peer", change.peer], ["commit", change.commit], ["kind", t(`kind.${document.kind}`)],
    ["with", change.count > 1 ? t("past.withOthers", { n: change.count - 1 }) : ""], ["hash", document.hash && `${document.hash} · ${bytes(document.size)}`]];
  return h("dl", { class: "facts past-facts" }, rows.filter(([, text]) => text).map(([name, text]) => h("div", { class: `fact-${name}` }, h("dt", null, t(`past.${name}`)), h("dd", null, shown(text)))));
}

// openVersion shows a change of a file, and compares revisions from there.
export function openVersion(name, change, { current, restored }) {
  const [document] = change.documents;
  const field = (label, id, value) => [h("input", { type: "text", class: "mono", id, prop: { value }, autocomplete: "off", spellcheck: "false" }), label];
  const [from, fromLabel] = field(t("past.from"), "past-from", document.version > 1 ? String(change.revision - 1) : "0");
  const [to, toLabel] = field(t("past.to"), "past-to", String(change.revision));
  const how = h("select", { id: "past-how" }, ["text", "paths", "contents"].map((value) => h("option", { value }, t(`how.${value}`))));
  const resolved = h("input", { type: "checkbox", id: "past-resolved" });
  const said = h("p", { class: "note", id: "past-said", role: "status" });
  const shows = createReading({ said });
  const ask = () => shows.ask({ name, from: from.value.trim(), to: to.value.trim(), how: how.value, resolved: resolved.checked });
  for (const choice of [how, resolved]) choice.addEventListener("change", ask);
  const labelled = (input, label) => h("label", { class: "field" }, h("span", null, label), input);
  const open = dialog({
    title: t("past.titleOf", { name, rev: String(change.revision) }), id: "version", wide: true,
    body: [facts(change),
      h("div", { class: "fields" }, labelled(from, fromLabel), labelled(to, toLabel), labelled(how, t("past.how")), h("label", { class: "check" }, resolved, t("configs.resolved"))),
      said, shows.el],
    actions: [
      { label: t("close"), value: null, id: "version-close" },
      current || document.kind === "deleted" ? null : { label: t("past.restore"), id: "version-restore", kind: "danger", submit: () => restore(name, restored, change.revision) },
      { label: t("past.compare"), id: "version-compare", main: true, submit: async () => {
        await ask();
        return false;
      } },
    ].filter(Boolean),
  });
  ask();
  return open.finally(shows.close);
}

// createReading makes a list of what a question about the past is answered, a page at a time.
function createReading({ said }) {
  let asking = null, next = 0, rest = "", question = null;
  const list = createLines({ label: t("past.answer"), id: "past-lines", nearEnd: () => next && !asking && page() });

  // page reads the next part.
  async function page() {
    const mine = (asking = new AbortController());
    const first = next === 0;
    const { name, from, to, how, resolved } = question;
    try {
      const answer = await (how === "contents" ? api.show(name, to, resolved, next, mine.signal)
        : api.diff({ name, from, to, resolved, paths: how === "paths", offset: next }, mine.signal));
      if (mine !== asking) return;
      asking = null;
      next = answer.next ?? 0;
      // Whatever a moment means, the pages are of one revision.
      question = how === "contents" ? { ...question, to: String(answer.at) } : { ...question, from: String(answer.from.at), to: String(answer.to.at) };
      const items = how === "paths" ? answer.paths ?? [] : linesOf(answer, how, first);
      list.set(first ? items : [...list.items, ...items]);
      put(said, tell(answer, how));
      if (next && !items.length) await page(); // a line longer than an answer
    } catch (err) {
      if (err.name === "AbortError" || mine !== asking) return;
      asking = null;
      next = 0;
      if (first) list.set([]);
      put(said, refusalText(err));
    }
  }

  // linesOf are the whole lines of a page; the rest of the last one waits for the next page.
  function linesOf(answer, how, first) {
    let text = (first ? "" : rest) + (answer.text ?? "");
    rest = "";
    if (next) {
      const end = text.lastIndexOf("\n") + 1;
      rest = text.slice(end);
      text = text.slice(0, end);
    }
    if (how === "contents" && answer.resolved && first && !next && text.length <= TIDY) {
      const { root } = read(text);
      if (root) text = format(text, root);
    }
    if (text === "") return [];
    const lines = text.replace(/\n$/, "");
    if (how === "contents") return lines.split("\n").map((line) => ({ text: line }));
    return unified(first ? lines.replace(/^--- .*\n\+\+\+ .*\n/, "") : lines);
  }

  function tell(answer, how) {
    if (how === "contents") {
      return [answer.deleted && !answer.length ? t("past.wasDeleted") : t("past.at", { rev: String(answer.at), size: bytes(answer.length) }), answer.bases?.length ? ` · ${t("configs.inherits", { names: answer.bases.map(shown).join(", ") })}` : ""];
    }
    return answer.same ? t("diff.none") : t("past.fromTo", { from: String(answer.from.at), to: String(answer.to.at) });
  }

  return {
    el: list.el,
    ask(wanted) {
      asking?.abort();
      question = wanted;
      next = 0;
      rest = "";
      put(said, t("loading"));
      return page();
    },
    close() {
      asking?.abort();
      list.close();
    },
  };
}

// commentField asks why.
export const commentField = (id) => h("input", { type: "text", id, maxlength: 1000, autocomplete: "off", placeholder: t("comment.hint") });

// byline asks once who writes, where nobody has to prove it. field is for a dialog, and keep for
// when it is confirmed.
const AUTHOR = "confcenter.author";
sign(remembered(AUTHOR));
let asked = false; // who gives no name is not asked again

export function byline() {
  const known = remembered(AUTHOR);
  if (session.me.access_control || (asked && !known)) return { field: null, keep() {} };
  const input = h("input", { type: "text", id: "author", maxlength: 100, autocomplete: "name", value: known });
  const field = h("label", { class: "field", hidden: Boolean(known) }, h("span", null, t("author.ask")), input);
  const as = known ? h("p", { class: "note", id: "author-known" }, t("author.as", { name: shown(known) }), " ", button(t("author.change"), () => {
    field.hidden = false;
    input.focus();
  }, { bare: false, id: "author-change" })) : null;
  return { field: [as, field], keep() {
    asked = true;
    remember(AUTHOR, input.value.trim());
    sign(input.value.trim());
  } };
}

// restore asks why, and makes a file what it was at a revision, by default before it was
// deleted; true if that is done.
export async function restore(name, restored, revision) {
  const comment = commentField("restore-comment"), by = byline();
  const done = await dialog({
    title: t("past.restoreTitle", { name }), id: "restore",
    body: [h("p", null, revision ? t("past.restoreAsk", { rev: String(revision) }) : t("past.undeleteAsk")), by.field, h("label", { class: "field" }, h("span", null, t("comment.why")), comment)],
    actions: [
      { label: t("cancel"), value: null, id: "restore-no" },
      { label: t("past.restore"), id: "restore-yes", main: true, submit: async () => {
        by.keep();
        await api.rollback(name, revision && String(revision), comment.value.trim() || undefined);
        return true;
      } },
    ],
  });
  if (!done) return false;
  say(t("past.restored", { name }));
  restored(name);
  return true;
}
