// The page of configuration files: the tree, and one file as written and as
// resolved. What was typed and not saved is kept while one looks at other pages.

import { configs as api, listen, past } from "./api.js";
import { confirm, dialog, refusalText, say, sayRefusal } from "./dialogs.js";
import { button, debounce, h, icon, put, tablist, throttle } from "./dom.js";
import { createEditor } from "./editor.js";
import { withEndings, withFeeds } from "./endings.js";
import { explain } from "./explain.js";
import { few, fewText } from "./few.js";
import { createHits } from "./hits.js";
import { bytes, dateTime, remember, remembered, t } from "./i18n.js";
import { createList } from "./list.js";
import { isolated, name as nameOf, shown } from "./names.js";
import { compareKeys } from "./order.js";
import { byline, commentField, createPast, restore, who } from "./past.js";
import { problemText } from "./problems.js";
import { createResolved } from "./resolved.js";
import { review, settle } from "./review.js";
import { createUses } from "./uses.js";

const META = "_meta.json";
const EDITABLE = 4 << 20; // characters; browsers' text areas take seconds for each key in longer texts

// Kept between visits of the page.
const drafts = new Map(); // name → {text, base: what it began from, match: its tag, or null for a new file, comment}
const kept = { filter: "", deleted: false, contents: false, only: "", side: "resolved" };
const STATES = ["broken", "deleted"]; // of which the tree can show all files and no others

// folded are the directories that are shut, also at the next visit.
const FOLDED = "confcenter.folded";
const MAX_FOLDED = 500;
const folded = new Set(remembered(FOLDED).split("\n").filter(Boolean));

export const unsaved = () => drafts.size > 0;

const narrow = matchMedia("(max-width: 760px)");
export function open(main, frame) {
  const page = new Page(main, frame);
  return { show: (name, filter) => page.show(name, filter), close: () => page.close() };
}

class Page {
  constructor(main, frame) {
    this.files = new Map();
    this.name = "";
    this.file = undefined; // what the server has of it; null: nothing, undefined: it has not said yet
    this.gone = new AbortController();
    this.asked = 0; // how often the server was
    this.answered = {}; // the last question that was, by what was asked for
    this.build(main);
    this.drawSoon = throttle(100, () => {
      this.drawTree();
      this.drawHead();
    });
    this.reloadFile = debounce(50, () => (this.saving ? this.reloadFile() : this.load(true)));
    this.reloadResolved = debounce(80, () => this.loadResolved());
    this.unlisten = listen("config/stream", {}, {
      config: (event) => this.heard(JSON.parse(event.data)),
      reset: () => this.collect(),
      synced: () => this.collected(),
    }, { state: frame.live, fresh: () => this.collect() });
    this.onNarrow = () => this.list.refresh();
    narrow.addEventListener("change", this.onNarrow);
  }

  close() {
    this.keepDraft();
    this.gone.abort();
    this.unlisten();
    narrow.removeEventListener("change", this.onNarrow);
    for (const later of [this.drawSoon, this.reloadFile, this.reloadResolved]) later.cancel();
    this.list.close();
    this.hits.close();
    this.editor.close();
    this.resolved.close();
    this.past.close();
    this.uses.close();
  }

  build(main) {
    this.list = createList({
      label: t("configs.tree"), id: "tree", role: "tree", rowHeight: () => (narrow.matches ? 42 : 30),
      row: (item) => this.treeRow(item),
      choose: (item) => this.choose(item),
      key: (event, item, index) => this.treeKey(event, item, index),
    });
    this.filter = h("input", { type: "search", id: "tree-filter", placeholder: t("configs.filter"), "aria-label": t("configs.filter"),
      prop: { value: kept.filter }, on: { input: () => {
        kept.filter = this.filter.value;
        this.shut.clear();
        this.drawTree();
      } } });
    this.shut = new Set(); // directories that are shut while one filters, when all begin open
    this.hits = createHits({ rowHeight: () => (narrow.matches ? 42 : 28), open: (name) => {
      this.find = { name, text: kept.filter.trim() };
      if (name === this.name) this.findIt();
      else go(name);
    } });
    this.inContents = h("button", { type: "button", class: "btn bare", id: "in-contents", title: t("configs.inContents"), "aria-label": t("configs.inContents"),
      "aria-pressed": String(kept.contents), on: { click: () => {
        kept.contents = !kept.contents;
        this.inContents.setAttribute("aria-pressed", String(kept.contents));
        this.filter.focus();
        this.drawTree();
      } } }, icon("lines"));
    this.only = h("div", { class: "chip", id: "only", hidden: true }, h("span"),
      h("a", { href: "#/configs", id: "show-all", title: t("configs.showAll"), "aria-label": t("configs.showAll") }, "×"));
    this.foldAll = h("button", { type: "button", class: "btn bare", id: "fold-all", on: { click: () => this.toggleAll() } });
    this.deleted = h("input", { type: "checkbox", id: "tree-deleted", prop: { checked: kept.deleted }, on: { change: () => {
      kept.deleted = this.deleted.checked;
      this.drawTree();
    } } });
    this.count = h("span", { id: "tree-count" });
    this.editor = createEditor({ label: t("configs.written"), id: "editor", onInput: () => this.typed(), onSave: () => this.save() });
    this.resolved = createResolved({ open: (name) => go(name),
      explain: (path) => explain(this.name, path, { open: (name) => go(name), restored: (name) => this.restored(name) }) });
    this.longNote = h("p", { class: "note" });
    this.head = h("div", { class: "detail-head" });
    this.banner = h("div", { class: "banners", "aria-live": "polite" });
    this.resolvedNote = h("p", { class: "note", id: "resolved-note" });
    this.deletion = h("span", { id: "deletion" });
    this.past = createPast({ restored: (name) => this.restored(name) });
    this.uses = createUses();
    this.tabs = tablist(t("configs.views"), "narrow-only");
    this.sides = tablist(t("configs.views"), "column-title");
    const panel = (name, ...content) => h("div", { class: "side", id: `panel-${name}`, role: "tabpanel", "aria-label": t(`configs.${name}`) }, content);
    this.columns = h("div", { class: "columns", data: { tab: "written", side: kept.side } },
      h("section", { class: "column written", id: "panel-written", "aria-label": t("configs.written") }, h("h3", { class: "column-title" }, t("configs.written")), this.longNote, this.editor.el),
      h("section", { class: "column resolved" }, this.sides.el, panel("resolved", this.resolvedNote, this.resolved.el), panel("history", this.past.el), panel("uses", this.uses.el)));
    this.drawTabs();
    this.empty = h("div", { class: "empty" });
    this.detail = h("section", { class: "pane detail", hidden: true }, this.head, this.banner, this.tabs.el, this.columns);
    this.split = h("div", { class: "split configs", data: { pane: "list" } },
      h("section", { class: "pane side" },
        h("div", { class: "pane-tools" }, h("div", { class: "search with-switch" }, icon("search"), this.filter, this.inContents),
          button(t("configs.new"), () => this.create(), { icon: "plus", kind: "primary", id: "new-file" })),
        this.only, this.list.el, this.hits.el,
        h("div", { class: "pane-foot" }, this.count, h("label", { class: "check" }, this.deleted, t("configs.showDeleted")), this.foldAll)),
      this.detail, this.empty);
    put(main, this.split);
  }

  // ---- the tree

  // A stream that resumes nothing tells of all files first. What is known up to
  // then stays in sight until that has come to its end.
  collect() {
    this.all = new Map();
  }

  collected() {
    if (!this.all) return;
    this.files = this.all;
    this.all = null;
    this.synced = true;
    this.drawSoon();
    if (this.name) this.reloadFile();
  }

  // heard takes in what the stream tells of a file.
  heard(file) {
    const files = this.all ?? this.files;
    if (file.gone) files.delete(file.name);
    else files.set(file.name, file);
    if (this.all) return;
    this.drawSoon();
    this.hits.again();
    if (file.name === this.name) this.reloadFile();
    else if (file.name === META || (this.files.get(this.name)?.bases ?? []).includes(file.name)) this.reloadResolved();
  }

  drawTree() {
    const wanted = kept.filter.trim().toLowerCase();
    const names = [];
    let good = 0;
    const counts = { broken: 0, deleted: 0 };
    for (const { name, state } of this.files.values()) {
      if (state !== "deleted") good++;
      counts[state]++;
      if (name !== this.name && !drafts.has(name) && (kept.only ? state !== kept.only : state === "deleted" && !kept.deleted)) continue;
      names.push(name);
    }
    for (const name of drafts.keys()) if (!this.files.has(name)) names.push(name);
    const shown = names.filter((name) => name.toLowerCase().includes(wanted));
    this.closed = wanted || kept.only ? this.shut : folded;
    this.list.set(treeOf(shown, this.closed));
    this.list.select((item) => item?.name === this.name);
    this.list.el.hidden = kept.contents && wanted !== "";
    this.hits.search(kept.contents ? kept.filter.trim() : "");
    this.only.hidden = !kept.only;
    if (kept.only) put(this.only.firstChild, t(`only.${kept.only}`));
    this.drawFoldAll();
    put(this.count, t("configs.count", { n: good }), STATES.map((state) => counts[state] > 0 && [" · ",
      h("a", { class: state === "broken" ? "bad" : null, id: `${state}-count`, href: only(state), title: t(`only.${state}`) }, t(`count.${state}`, { n: counts[state] }))]));
    put(this.empty, h("div", { class: "empty-text" }, icon("file"), h("p", null, good ? t("configs.pick") : this.synced ? t("configs.none") : t("loading")),
      h("p", { class: "hint" }, t("configs.about"))));
  }

  treeRow(item) {
    const el = item.dir !== undefined ? this.dirRow(item) : this.fileRow(item);
    el.setAttribute("aria-level", item.depth + 1);
    el.style.setProperty("--depth", item.depth);
    return el;
  }

  dirRow(item) {
    return h("div", { class: "tree-row dir", "aria-expanded": String(!item.folded) }, icon(item.folded ? "right" : "down"), icon("folder"),
      h("span", { class: "tree-name" }, nameOf(item.label)), h("span", { class: "count" }, String(item.count)));
  }

  fileRow(item) {
    const file = this.files.get(item.name);
    const state = file?.state ?? "new";
    const marks = [];
    if (drafts.has(item.name)) marks.push(h("span", { class: "dot", title: t("configs.unsaved") }, h("span", { class: "hidden" }, t("configs.unsaved"))));
    if (file?.bases?.length) {
      const missing = state !== "deleted" && file.bases.some((base) => this.missing(base));
      marks.push(h("span", { class: missing ? "mark bad" : "mark", title: t("configs.inherits", { names: fewText(file.bases) }) }, icon("link")));
    }
    if (state !== "good") marks.push(h("span", { class: `badge ${state}`, title: problemText(file?.error) || null }, t(`state.${state}`)));
    return h("div", { class: `tree-row file ${state}`, title: isolated(item.name) }, icon("file"), h("span", { class: "tree-name" }, nameOf(item.label)), marks);
  }

  // missing says that there is no file of that name; as long as not all are known
  // none is.
  missing(name) {
    const file = this.files.get(name);
    return this.synced && (!file || file.state === "deleted");
  }

  choose(item) {
    if (item.dir === undefined) return go(item.name);
    if (this.closed.has(item.dir)) this.closed.delete(item.dir);
    else this.closed.add(item.dir);
    this.folded();
  }

  folded() {
    remember(FOLDED, [...folded].slice(-MAX_FOLDED).join("\n"));
    this.drawTree();
  }

  // toggleAll shuts all directories, or opens them if all are shut.
  toggleAll() {
    const open = this.anyOpen();
    this.closed.clear();
    if (open) for (const name of this.files.keys()) for (let at = name.indexOf("/"); at >= 0; at = name.indexOf("/", at + 1)) this.closed.add(name.slice(0, at + 1));
    this.folded();
  }

  anyOpen() {
    return this.list.items.some((item) => item.dir !== undefined && !item.folded);
  }

  drawFoldAll() {
    this.foldAll.hidden = this.list.el.hidden || !this.list.items.some((item) => item.dir !== undefined);
    const open = this.anyOpen();
    put(this.foldAll, icon(open ? "fold" : "unfold"));
    this.foldAll.title = t(open ? "configs.foldAll" : "configs.unfoldAll");
    this.foldAll.setAttribute("aria-label", this.foldAll.title);
  }

  treeKey(event, item, index) {
    if (!item || (event.key !== "ArrowRight" && event.key !== "ArrowLeft")) return false;
    const opens = event.key === "ArrowRight";
    if (item.dir !== undefined && item.folded === opens) this.choose(item);
    else if (!opens) this.list.reveal(this.list.items.findLastIndex((other, i) => i < index && other.depth < item.depth));
    return true;
  }

  // ---- one file

  // show shows a file, or without a name the tree; filter is a state, for the files in it only.
  async show(name = "", filter = "") {
    const state = STATES.includes(filter) ? filter : "";
    if (!name && kept.only !== state) {
      kept.only = state;
      this.shut.clear();
      this.drawTree();
    }
    if (name === this.name && (name === "" || this.file || drafts.has(name))) {
      this.split.dataset.pane = name ? "detail" : "list";
      return;
    }
    this.keepDraft();
    this.name = name;
    this.file = undefined;
    this.detail.hidden = !name;
    this.empty.hidden = Boolean(name);
    this.split.dataset.pane = name ? "detail" : "list";
    this.drawTree();
    if (!name) return;
    put(this.banner);
    this.resolved.clear();
    this.past.show("");
    this.uses.show("");
    this.editor.value = "";
    this.editor.area.readOnly = true; // until it is known what is to be edited
    this.drawHead();
    if (narrow.matches) document.getElementById("back").focus();
    await this.load(false);
    this.list.reveal(this.list.items.findIndex((item) => item.name === name));
  }

  // question numbers one, and returns what tells whether its answer counts: the older of
  // two answers may come last.
  question(what) {
    const { name } = this, mine = ++this.asked;
    return () => {
      if (name !== this.name || mine < this.answered[what]) return false;
      this.answered[what] = mine;
      return true;
    };
  }

  // load asks the server for the file; live: because it has changed there.
  async load(live) {
    const name = this.name;
    let file = null;
    if (!name) return;
    const counts = this.question("file");
    try {
      file = await api.file(name, this.gone.signal);
      file.octets = new Blob([file.text]).size;
      file.long = file.text.length > EDITABLE;
      file.raw = file.long ? "" : file.text ?? "";
      file.text = withFeeds(file.raw);
    } catch (err) {
      if (err.status !== 404) return sayRefusal(err);
    }
    if (!counts()) return;
    const before = this.file;
    this.file = file;
    const draft = drafts.get(name);
    this.editor.el.hidden = Boolean(file?.long);
    put(this.longNote, file?.long ? t("configs.long", { size: bytes(file.octets) }) : null);
    if (!draft) this.fill(file, live && before);
    else if (!live || !before) this.editor.value = draft.text;
    if (draft && file && draft.text === file.text) {
      drafts.delete(name);
      this.drawTree();
    }
    this.drawHead();
    this.drawBanner();
    this.reviewing?.();
    this.loadResolved();
    this.showPast();
    this.tellDeletion();
    this.findIt();
  }

  // showPast lists the versions, or who uses the file, if they are what is looked at.
  showPast() {
    const { side } = this.columns.dataset;
    this.past.show(side === "history" ? this.name : "");
    this.uses.show(side === "uses" ? this.name : "");
  }

  // findIt marks what was searched for.
  findIt() {
    if (this.find?.name === this.name) this.editor.find(this.find.text);
    this.find = null;
  }

  fill(file, live) {
    const text = file?.text ?? "";
    const { area } = this.editor, { scrollTop, selectionStart, selectionEnd } = area;
    this.editor.value = text;
    if (!live) return;
    area.setSelectionRange(selectionStart, selectionEnd);
    area.scrollTop = scrollTop;
  }

  async loadResolved() {
    const name = this.name, counts = this.question("resolved");
    const file = this.files.get(name) ?? this.file;
    const nothing = file?.state === "deleted" && !file.bases?.length; // programs go on getting what a deleted file inherits
    if (!file || nothing || !this.file) {
      counts();
      this.resolved.clear();
      put(this.resolvedNote, t(nothing ? "configs.resolvedDeleted" : "configs.resolvedNew"));
      return;
    }
    if (this.file.state === "broken" && !this.file.mtime) {
      counts();
      this.resolved.clear();
      put(this.resolvedNote, t("configs.resolvedNever"));
      return;
    }
    try {
      const { text, origins, revision } = await api.resolved(name, this.gone.signal);
      if (!counts()) return;
      this.resolved.show(name, text, origins);
      const from = [...new Set(Object.values(origins))].filter((origin) => origin !== name);
      const broken = this.file?.state === "broken";
      put(this.resolvedNote, broken ? t("configs.resolvedLast") : from.length ? t("configs.resolvedFrom", { n: from.length, names: fewText(from) }) : t(file.state === "deleted" ? "configs.resolvedDeleted" : "configs.resolvedOwn"),
        revision ? h("span", { class: "hint" }, t("configs.version", { rev: String(revision) })) : null);
    } catch (err) {
      if (err.name === "AbortError" || !counts()) return;
      this.resolved.clear();
      put(this.resolvedNote, refusalText(err));
    }
  }

  get dirty() {
    return this.name !== "" && drafts.has(this.name);
  }

  // typed follows the text area: what differs from the server's text is a draft.
  typed() {
    if (!this.name) return;
    const text = this.editor.value;
    const had = drafts.get(this.name);
    const server = this.file && this.file.state !== "deleted" ? this.file.text : null;
    if (server === null ? text === "" && !had?.isNew : text === server && (!had || had.match === this.file.tag)) drafts.delete(this.name);
    else if (!had) {
      if (!this.file) return; // nothing is shown yet
      drafts.set(this.name, { text, base: server ?? "", match: server === null ? null : this.file.tag });
    } else had.text = text;
    if (Boolean(had) !== drafts.has(this.name)) this.drawTree();
    this.drawHead();
    if (!had) this.drawBanner();
  }

  keepDraft() {
    const draft = drafts.get(this.name);
    if (draft) draft.text = this.editor.value;
  }

  drawHead() {
    if (!this.name) return;
    const file = this.file;
    const state = file?.state ?? "new";
    const meta = [];
    if (file?.revision) meta.push(t("configs.version", { rev: String(file.revision) }));
    if (file?.mtime) meta.push(t("configs.changed", { when: dateTime(file.mtime * 1000) }));
    const listed = this.files.get(this.name);
    if (file && state !== "deleted") meta.push(bytes(file.octets));
    const bases = listed?.bases ?? file?.bases ?? [];
    const fault = Boolean(this.editor.seenFault) || Boolean(file?.long);
    // What has not changed stays.
    const drawn = JSON.stringify([this.name, Boolean(file), state, meta, bases, bases.map((base) => this.missing(base)), this.dirty, this.saving, fault]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    put(this.head,
      button(t("back"), () => go(""), { icon: "back", bare: true, kind: "narrow-only", id: "back" }),
      h("div", { class: "titles" },
        h("h2", { id: "file-name" }, nameOf(this.name), state === "good" ? null : h("span", { class: `badge ${state}` }, t(`state.${state}`)),
          this.dirty ? h("span", { class: "badge unsaved", id: "unsaved" }, t("configs.unsaved")) : null),
        h("p", { class: "meta" }, meta.join(" · "), bases.length ? [meta.length ? " · " : "", t("configs.inheritsFrom"), " ", few(bases, (base) => this.base(base))] : null)),
      h("div", { class: "actions" },
        button(t("editor.format"), () => this.editor.format(), { id: "format", disabled: fault }),
        button(t("configs.revert"), () => this.revert(), { id: "revert", disabled: !this.dirty }),
        // Always there, so that nothing moves below somebody's hand.
        button(t("configs.copy"), () => this.copy(), { id: "copy-file", disabled: !file || state === "deleted" || file.long }),
        button(t("configs.rename"), () => this.rename(), { id: "rename-file", disabled: !file || state !== "good" || file.long || this.dirty }),
        button(t("delete"), () => this.remove(), { icon: "trash", kind: "danger", id: "delete-file", disabled: !file || state === "deleted" }),
        button(t("save"), () => this.save(), { kind: "primary", id: "save", disabled: this.saving || !this.dirty, title: "Ctrl+S" })));
    this.drawTabs();
  }

  // base is one that the file inherits from. What is not there can be made.
  base(name) {
    if (!this.missing(name)) return h("a", { href: link(name) }, nameOf(name));
    return h("span", { class: "missing" }, nameOf(name),
      h("button", { type: "button", class: "badge broken", on: { click: () => this.start(name) } }, t("state.missing"), " · ", t("configs.createIt")));
  }

  drawTabs() {
    const { dataset } = this.columns;
    const tab = (name, id, chosen) => ({ id, chosen, text: t(`configs.${name}`), panel: `panel-${name}`, go: () => this.turnTo(name) });
    this.tabs.draw(["written", "resolved", "history", "uses"].map((name) => tab(name, `tab-${name}`, dataset.tab === name)));
    this.sides.draw(["resolved", "history", "uses"].map((name) => tab(name, `side-${name}`, dataset.side === name)));
  }

  // turnTo shows one of the tabs. On a wide screen the file as written is always there.
  turnTo(name) {
    const { dataset } = this.columns;
    dataset.tab = name;
    if (name !== "written") kept.side = dataset.side = name;
    this.drawTabs();
    this.editor.redraw();
    this.showPast();
  }

  drawBanner() {
    const file = this.file, draft = drafts.get(this.name);
    const banners = [];
    if (file?.state === "broken") banners.push(h("div", { class: "banner bad", id: "broken" }, icon("warn"), h("span", null, h("b", null, t(file.mtime ? "configs.broken" : "configs.brokenEver")), " ", problemText(file.error))));
    if (file?.state === "deleted") banners.push(h("div", { class: "banner", id: "was-deleted" }, icon("trash"), h("span", null, t("configs.wasDeleted"), " ", this.deletion),
      draft ? null : button(t("configs.bringBack"), () => restore(this.name, (name) => this.restored(name)), { id: "bring-back", kind: "primary" })));
    if (!file && !draft) banners.push(h("div", { class: "banner", id: "no-such-file" }, icon("warn"), h("span", null, t("configs.noSuch")),
      button(t("configs.createIt"), () => this.start(this.name), { kind: "primary" })));
    if (draft && file && this.behind(draft) && draft.text !== file.text) {
      banners.push(h("div", { class: "banner warn", id: "changed-elsewhere" }, icon("warn"), h("span", null, t("configs.changedElsewhere")),
        button(t("configs.compare"), () => this.settle(), { id: "compare" })));
    }
    this.editor.area.readOnly = !file && !draft;
    put(this.banner, banners);
  }

  // behind says that somebody else has written since a draft was begun.
  behind(draft) {
    return draft.match !== (this.file && this.file.state !== "deleted" ? this.file.tag : null);
  }

  restored(name) {
    if (name === this.name) this.load(true);
  }

  // tellDeletion says who deleted the file, and why.
  async tellDeletion() {
    const { name } = this;
    this.deletion.replaceChildren();
    if (this.file?.state !== "deleted") return;
    try {
      const { changes: [last] } = await past.log(name, 0, 1, this.gone.signal);
      if (name !== this.name || last?.documents[0].kind !== "deleted") return;
      this.deletion.replaceChildren(t("past.deletedBy", { who: who(last), when: dateTime(last.time) }), " ", shown(last.comment ?? ""));
    } catch (err) {
      if (err.status !== 404) sayRefusal(err);
    }
  }

  // save shows what would be saved, and saves it.
  async save() {
    const draft = drafts.get(this.name), name = this.name;
    if (!draft || this.saving) return;
    const fault = this.editor.fault;
    if (fault) {
      this.columns.dataset.tab = "written";
      this.editor.goto(fault.offset);
      return say(t("configs.notJSON"), "bad");
    }
    draft.text = this.editor.value;
    const before = this.file && this.file.state !== "deleted" ? this.file.text : "";
    const comment = await review({ name, before, after: draft.text, comment: draft.comment,
      conflict: () => this.behind(draft), follow: (fn) => (this.reviewing = fn) });
    if (comment === null || draft !== drafts.get(this.name)) return;
    draft.comment = comment;
    await this.write();
  }

  async write(match) {
    const draft = drafts.get(this.name), name = this.name;
    if (!draft || this.saving) return;
    const sent = draft.text = this.editor.value;
    const began = match === undefined ? draft.match : match;
    this.saving = true; // so that what the stream tells may be one's own doing
    this.drawHead();
    try {
      const { mtime } = await api.save(name, withEndings(this.file?.raw ?? "", sent), { ...(began === null ? { absent: true } : { match: began }), comment: draft.comment });
      if (draft.text === sent) drafts.delete(name);
      else Object.assign(draft, { base: sent, match: String(mtime), isNew: false }); // typed meanwhile: it goes on from what was saved
      say(t("configs.saved", { name }));
      if (name === this.name) await this.load(true);
      this.drawTree();
    } catch (err) {
      this.saving = false;
      if (err.conflict) await this.settle();
      else sayRefusal(err);
    } finally {
      this.saving = false;
      this.drawHead();
    }
  }

  // settle asks what to do when somebody else has written the same file.
  async settle() {
    await this.load(true);
    const draft = drafts.get(this.name), file = this.file;
    if (!draft) return;
    draft.text = this.editor.value;
    const theirs = file && file.state !== "deleted" ? file.text : null;
    const choice = await settle({ name: this.name, base: draft.base, theirs, mine: draft.text });
    if (choice === "take") this.discard();
    if (choice === "overwrite") await this.write(theirs === null ? null : file.tag);
    if (choice?.merged !== undefined) this.resume(draft, choice.merged, file);
  }

  // resume goes on with a text that holds what file has, too.
  resume(draft, text, file) {
    Object.assign(draft, { text, base: file.text, match: file.tag, isNew: false });
    this.editor.value = text;
    this.typed();
    this.drawTree();
    this.drawHead();
    this.drawBanner();
  }

  discard() {
    drafts.delete(this.name);
    this.fill(this.file, false);
    this.drawTree();
    this.drawHead();
    this.drawBanner();
  }

  async revert() {
    const name = this.name;
    if (!await confirm({ title: t("configs.revert"), text: t("configs.revertAsk", { name }), action: t("configs.revert") })) return;
    this.discard();
    if (this.file === null) go("");
  }

  async remove() {
    const { name, file } = this;
    if (!file) return;
    const why = commentField("delete-comment"), by = byline();
    const gone = await confirm({
      title: t("configs.deleteTitle", { name }), action: t("delete"),
      text: t("configs.deleteAsk"),
      more: [this.heirs(name), by.field, h("label", { class: "field" }, h("span", null, t("comment.why")), why)],
      submit: () => {
        by.keep();
        return api.remove(name, file.tag, why.value.trim());
      },
    });
    if (!gone) return;
    drafts.delete(name);
    say(t("configs.deletedNow", { name }));
    if (name === this.name) await this.load(true);
  }

  // heirs warns of files that inherit from one that is to go; null: there are none.
  heirs(name) {
    const heirs = [...this.files.values()].filter((f) => f.state !== "deleted" && f.bases?.includes(name)).map((f) => f.name);
    return heirs.length ? h("p", { id: "heirs" }, h("b", { class: "bad" }, t("configs.deleteHeirs", { n: heirs.length })), " ", few(heirs.sort(compareKeys))) : null;
  }

  // create asks for the name of a new file.
  async create() {
    const name = await this.askName({ title: t("configs.newTitle"), action: t("configs.newGo") });
    if (name) this.start(name);
  }

  // copy begins a new file with what this one holds.
  async copy() {
    const { name, file } = this;
    const to = await this.askName({ title: t("configs.copyTitle", { name }), action: t("configs.newGo"), value: name });
    if (to) this.start(to, this.dirty ? this.editor.value : file.text);
  }

  // rename gives the file another name, in one change.
  async rename() {
    const { name, file } = this;
    const why = commentField("rename-comment"), by = byline();
    const to = await this.askName({
      title: t("configs.renameTitle", { name }), action: t("configs.rename"), value: name,
      more: [h("p", { class: "hint" }, t("configs.renameHint")), this.heirs(name), by.field, h("label", { class: "field" }, h("span", null, t("comment.why")), why)],
      submit: async (to) => {
        const { changes: [last] } = await past.log(name, 0, 1);
        by.keep();
        await api.rename([{ name: to, base: "none", text: file.raw }, { name, delete: true, base: last.documents[0].hash }], why.value.trim() || undefined);
      },
    });
    if (!to) return;
    say(t("configs.renamed", { name, to }));
    go(to);
  }

  // askName asks for the name of a file that is not there; null: for none.
  askName({ title, action, value = "", more, submit }) {
    const input = h("input", { type: "text", class: "mono", id: "new-name", autofocus: true, autocomplete: "off", spellcheck: "false", placeholder: "team/app.json", required: true, value });
    return dialog({
      title, id: "new-dialog",
      body: [h("label", { class: "field" }, h("span", null, t("configs.name")), input), h("p", { class: "hint" }, t("configs.newHint")), more],
      actions: [{ label: t("cancel"), value: null }, { label: action, main: true, id: "new-go", submit: async () => {
        let name = input.value.trim();
        if (name && !name.endsWith(".json")) name += ".json";
        const why = nameFault(name);
        if (why) throw new Error(t(why));
        const there = this.files.get(name);
        if (there && there.state !== "deleted") throw new Error(t("configs.exists", { name }));
        await submit?.(name);
        return name;
      } }],
    });
  }

  start(name, text = "{\n    \n}\n") {
    if (!drafts.has(name)) drafts.set(name, { text, base: "", match: null, isNew: true });
    if (this.name === name) {
      this.editor.value = drafts.get(name).text;
      this.drawHead();
      this.drawBanner();
      this.drawTree();
    } else go(name);
  }
}

// nameFault says what the server would not accept; it has the last word.
function nameFault(name) {
  if (!name || name === ".json") return "configs.nameEmpty";
  if (name.startsWith("/") || name.split("/").some((part) => part === "" || part.startsWith("."))) return "configs.nameDots";
  if (/[\\\u0000-\u001f\u007f]/.test(name)) return "configs.nameChars";
  return "";
}

const only = (state) => `#/configs//${state}`;

const link = (name) => `#/configs/${encodeURIComponent(name)}`;

function go(name) {
  location.hash = name ? link(name) : kept.only ? only(kept.only) : "#/configs";
}

// treeOf are the rows of the tree: directories before files, each level sorted.
function treeOf(names, closed) {
  const top = { dirs: new Map(), files: [], count: 0 };
  for (const name of names) {
    const parts = name.split("/");
    let dir = top;
    dir.count++;
    for (const part of parts.slice(0, -1)) {
      if (!dir.dirs.has(part)) dir.dirs.set(part, { dirs: new Map(), files: [], count: 0 });
      dir = dir.dirs.get(part);
      dir.count++;
    }
    dir.files.push({ name, label: parts.at(-1) });
  }
  const rows = [];
  const walk = (dir, path, depth) => {
    for (const [label, below] of [...dir.dirs].sort(([a], [b]) => compareKeys(a, b))) {
      const full = `${path}${label}/`;
      const shut = closed.has(full);
      rows.push({ dir: full, label, depth, folded: shut, count: below.count });
      if (!shut) walk(below, full, depth + 1);
    }
    for (const { name, label } of dir.files.sort((a, b) => compareKeys(a.label, b.label))) rows.push({ name, label, depth });
  };
  walk(top, "", 0);
  return rows;
}
