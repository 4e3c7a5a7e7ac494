// The page of the flow layout: applications with everything below them, and one member
// with its fields and its operation log.

import { flow as api } from "./api.js";
import { refusalText } from "./dialogs.js";
import { button, h, icon, put, putScrolled } from "./dom.js";
import { number, t } from "./i18n.js";
import { createList } from "./list.js";
import { isolated, name as nameOf, value as valueOf } from "./names.js";
import { badge, follow, moment, table } from "./records.js";

const SCOPE = "cl"; // that is used when none is named
const LINES = 1000; // of the tree, asked for at a time
const MAX_LINES = 10_000; // that are read again with every change
const LOG = 100; // lines of the operation log that are shown
const SHOWN = 300; // characters of a value
const SCOPES = 5000; // ms between looks for other scopes
const narrow = matchMedia("(max-width: 760px)");

const go = (...parts) => (location.hash = ["#/flow", ...parts.map(encodeURIComponent)].join("/"));

export function open(main, { live }) {
  let scope = "";
  let member = "";
  let scopes = [];
  let lines = []; // of the tree, as many as were asked for
  let more = false;
  let most = LINES;
  let log = LOG;
  let following = null;
  const closed = new Set(); // members that are folded
  const gone = new AbortController();

  const choice = h("select", { id: "scope", "aria-label": t("flow.scope"), on: { change: () => go(choice.value) } });
  const filter = h("input", { type: "search", id: "flow-filter", placeholder: t("flow.filter"), "aria-label": t("flow.filter"), on: { input: drawTree } });
  const count = h("span", { id: "flow-count", role: "status" });
  const note = h("p", { class: "note" });
  const list = createList({
    label: t("flow.tree"), id: "flow-tree", role: "tree", rowHeight: () => (narrow.matches ? 42 : 30), row: treeRow,
    choose: (line, index, event) => (event.target.closest?.(".twist") ? fold(line) : go(scope, line.key)),
    key: (event, line, index) => {
      if (!line || (event.key !== "ArrowRight" && event.key !== "ArrowLeft")) return false;
      const opens = event.key === "ArrowRight";
      if (line.parent && closed.has(line.key) === opens) fold(line);
      else if (!opens) list.reveal(list.items.findLastIndex((other, i) => i < index && other.depth < line.depth));
      return true;
    },
    nearEnd: () => {
      if (!more || most > lines.length || most >= MAX_LINES) return;
      most += LINES;
      following?.now();
    },
  });
  const detail = h("section", { class: "pane detail member", hidden: true });
  const empty = h("section", { class: "empty" }, h("div", { class: "empty-text" }, icon("box"), h("p", null, t("flow.pick")), h("p", { class: "hint" }, t("flow.about"))));
  const split = h("div", { class: "split flow", data: { pane: "list" } },
    h("section", { class: "pane keys" }, h("div", { class: "pane-tools" }, choice, h("div", { class: "search" }, icon("search"), filter)), note, list.el, h("div", { class: "pane-foot" }, count)),
    detail, empty);
  put(main, split);

  async function read(signal) {
    await Promise.all([readTree(signal), readMember(signal)]);
  }

  async function readTree(signal) {
    const asked = scope;
    try {
      const all = [];
      let next;
      do {
        const got = await api.tree(asked, next, LINES, signal);
        all.push(...got.lines);
        next = got.next;
      } while (next && all.length < most);
      if (asked !== scope) return;
      all.forEach((line, i) => (line.parent = all[i + 1]?.depth > line.depth));
      lines = all;
      more = Boolean(next);
      put(note, lines.length ? null : t("flow.none"));
      drawTree();
    } catch (err) {
      if (err.name !== "AbortError" && asked === scope) put(note, refusalText(err));
    }
  }

  function drawTree() {
    const wanted = filter.value.trim().toLowerCase();
    list.set(wanted ? lines.filter((line) => [line.key, line.name, line.status, line.worker].some((text) => text?.toLowerCase().includes(wanted))) : unfolded());
    list.select((line) => line.key === member);
    put(count, t(more ? "flow.countMore" : "flow.count", { n: lines.length }));
  }

  function unfolded() {
    let below = Infinity; // what is deeper is folded away
    return lines.filter((line) => {
      if (line.depth > below) return false;
      below = closed.has(line.key) ? line.depth : Infinity;
      return true;
    });
  }

  function fold(line) {
    if (!closed.delete(line.key)) closed.add(line.key);
    drawTree();
  }

  function treeRow(line) {
    const folded = closed.has(line.key);
    const el = h("div", { class: "tree-row member", title: isolated(line.key), "aria-level": line.depth + 1, "aria-expanded": line.parent ? String(!folded) : null },
      h("span", { class: "twist" }, line.parent ? icon(folded ? "right" : "down") : null),
      h("span", { class: "tree-name" }, h("span", { class: "mono" }, nameOf(line.key)), line.name ? h("small", null, " ", nameOf(line.name)) : null),
      line.worker ? h("span", { class: "meta" }, nameOf(line.worker)) : null,
      line.tasks ? h("span", { class: "meta tasks" }, Object.entries(line.tasks).map(([status, n]) => `${status} ${number(n)}`).join(" · ")) : null,
      badge(line.rolled || line.status));
    el.style.setProperty("--depth", line.depth);
    return el;
  }

  // ---- one member

  async function readMember(signal) {
    const asked = member, from = scope;
    if (!asked) return;
    const same = () => asked === member && from === scope;
    try {
      const [shown, told] = await Promise.all([api.member(from, asked, signal), api.oplog(from, asked, signal)]);
      if (same()) drawMember(shown, told.lines.toReversed());
    } catch (err) {
      if (err.name !== "AbortError" && same()) drawMember(null, [], refusalText(err));
    }
  }

  function drawMember(shown, told, fault) {
    const link = (key) => h("a", { class: "mono", href: `#/flow/${encodeURIComponent(scope)}/${encodeURIComponent(key)}` }, nameOf(key));
    putScrolled(detail,
      h("div", { class: "detail-head" }, button(t("back"), () => go(scope), { icon: "back", bare: true, id: "back-tree" }),
        h("div", { class: "titles" }, h("h2", { id: "member-name" }, nameOf(member), badge(shown?.status)),
          shown ? h("p", { class: "meta" }, nameOf(shown.lkey), shown.appuid ? [" · ", link(`cfapp.${shown.appuid}`)] : null, shown.worker ? [" · ", link(`wokr.${shown.worker}`)] : null) : null)),
      h("div", { class: "entry-scroll", tabindex: "0" }, fault ? h("p", { class: "note" }, fault) : null, shown ? [
        shown.lock?.owner ? h("p", { class: "note" }, t("flow.locked", { owner: shown.lock.owner })) : null,
        h("h3", { class: "section-title" }, t("flow.fields")),
        table("member-fields", [t("flow.field"), t("flow.value")], shown.fields.map((one) => [h("span", { class: "mono" }, nameOf(one.key)), fieldValue(one)]), t("flow.noFields")),
        h("h3", { class: "section-title" }, t("flow.log")),
        table("member-log", [t("record.when"), t("record.who"), t("flow.what")], told.slice(0, log).map((one) => [moment(one.time), nameOf(one.who), nameOf(one.what)]), t("flow.noLog")),
        told.length > log ? h("p", { class: "note" }, button(t("more"), () => {
          log += LOG;
          following.now();
        }, { id: "more-log" })) : null,
      ] : null));
  }

  function fieldValue({ key, text }) {
    if (/^[acl]time$/.test(key) && Number(text) > 1e15) return moment(Number(text));
    const plain = text[0] === '"' ? JSON.parse(text) : text;
    return h("span", { class: "mono" }, valueOf(plain.length > SHOWN ? `${plain.slice(0, SHOWN)}…` : plain, text[0] === '"' ? "string" : "json"));
  }

  // ---- scopes

  async function readScopes() {
    if (document.hidden) return;
    try {
      ({ scopes } = await api.scopes(gone.signal));
      drawScopes();
    } catch {
      // The tree says what is wrong.
    }
  }

  function drawScopes() {
    const all = [...new Set([...scopes, scope])].sort();
    if (all.join() !== [...choice.options].map((one) => one.value).join()) put(choice, all.map((one) => h("option", { value: one }, one)));
    choice.value = scope;
  }

  const timer = setInterval(readScopes, SCOPES);
  const onNarrow = () => list.refresh();
  narrow.addEventListener("change", onNarrow);
  readScopes();
  return {
    show(where = "", key = "") {
      const to = where || SCOPE;
      log = LOG;
      member = key;
      detail.hidden = !member;
      empty.hidden = Boolean(member);
      split.dataset.pane = member ? "detail" : "list";
      if (member) put(detail);
      if (to === scope) following.now();
      else {
        following?.close();
        scope = to;
        lines = [];
        most = LINES;
        drawScopes();
        following = follow(`@flow/${scope}`, read, live);
      }
      drawTree();
    },
    close() {
      clearInterval(timer);
      gone.abort();
      following?.close();
      narrow.removeEventListener("change", onNarrow);
      list.close();
    },
  };
}
