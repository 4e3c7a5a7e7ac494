// The page of the audit: its newest lines, and those that come.

import { audit as ask, listen } from "./api.js";
import { refusalText, sayRefusal } from "./dialogs.js";
import { button, debounce, h, nextFrame, put } from "./dom.js";
import { dateTime, number, t } from "./i18n.js";
import { shown } from "./names.js";
import { fillTable, scrolled, table } from "./tables.js";

const LOOKED = 1000; // lines that are looked at for one page, whether they are shown or not
const MOST = 2000; // lines that are kept on the page
const KINDS = ["change", "permission", "token", "login", "logout", "denied", "review", "refused", "lost", "pruned"];

const who = (line) => [h("b", null, shown(line.who ?? "")), line.says ? [" ", h("small", null, shown(line.says))] : null];

function row(line) {
  const what = (line.what ?? []).map(shown).join(", ");
  return h("tr", { id: `line-${line.seq}`, "data-kind": line.kind },
    h("td", null, String(line.seq)), h("td", { class: "when" }, dateTime(line.time)), h("td", null, h("span", { class: "badge" }, t(`audit.${line.kind}`))),
    h("td", { class: "whom" }, who(line)), h("td", { class: "mono place" }, shown(line.from ?? ""), line.via ? [" ", h("small", null, shown(line.via))] : null),
    h("td", null, shown(line.do ?? "")), h("td", { class: "mono" }, what, line.more ? ` ${t("names.more", { n: line.more })}` : null),
    h("td", null, h("span", { class: `badge ${line.outcome === "ok" ? "" : "broken"}` }, shown(line.outcome)), line.count ? ` × ${number(line.count)}` : null));
}

export function open(main, { live }) {
  const change = debounce(300, () => load());
  const kind = h("select", { id: "audit-kind", "aria-label": t("audit.kind"), on: { change: () => load() } }, h("option", { value: "" }, t("audit.any")), KINDS.map((value) => h("option", { value }, t(`audit.${value}`))));
  const input = (id, label) => h("input", { type: "search", id, placeholder: t(label), "aria-label": t(label), autocomplete: "off", on: { input: change } });
  const by = input("audit-who", "audit.byWho"), about = input("audit-what", "audit.about");
  const note = h("p", { class: "note", id: "audit-note", role: "status" });
  const older = button(t("audit.older"), () => back(), { id: "audit-older" });
  const heads = ["seq", "time", "kind", "who", "from", "do", "what", "outcome"];
  const all = table(heads.map((name) => t(`audit.${name}`)), []);
  put(main, h("div", { class: "status" }, h("section", { class: "card", id: "audit" }, h("h2", null, t("page.audit")), h("div", { class: "fields" }, kind, by, about), scrolled(t("page.audit"), all), note, older)));
  let lines = []; // newest first
  let from = 0, floor = 0; // lines above from were looked at; those up to floor are gone
  let turn = 0; // of the question that is asked: the answers to others are late
  let quiet = () => {};
  let closed = false;

  const draw = nextFrame(() => {
    if (closed) return;
    fillTable(all, lines.map(row));
    put(note, lines.length ? null : t("audit.none"));
    older.hidden = from <= floor || lines.length >= MOST;
  });

  const query = () => ({ kind: kind.value, who: by.value.trim(), what: about.value.trim() });

  // between asks for the lines above one number, up to another.
  async function between(after, last) {
    const found = [];
    for (const q = query(); after < last;) {
      const answer = await ask.lines({ ...q, after });
      found.push(...answer.lines.filter((line) => line.seq <= last));
      if (!answer.next) break;
      after = answer.next;
    }
    return found.reverse();
  }

  const seqOf = (head) => Number((head ?? "0").split(":")[0]);

  async function load() {
    const mine = ++turn;
    quiet();
    quiet = () => {};
    try {
      const end = await ask.head(), newest = seqOf(end.head);
      const start = Math.max(0, newest - LOOKED);
      const found = await between(start, newest);
      if (closed || mine !== turn) return;
      lines = found;
      from = start;
      floor = seqOf(end.pruned);
      quiet = listen("audit", { ...query(), after: newest }, {
        line: (event) => {
          lines.unshift(JSON.parse(event.data));
          lines.length = Math.min(lines.length, MOST);
          draw();
        },
        reset: () => load(),
      }, { state: live });
      draw();
    } catch (err) {
      if (closed || mine !== turn) return;
      lines = [];
      fillTable(all, []);
      put(note, refusalText(err));
      older.hidden = true;
    }
  }

  async function back() {
    const mine = turn, last = from, start = Math.max(0, from - LOOKED);
    try {
      const found = await between(start, last);
      if (closed || mine !== turn) return;
      lines.push(...found);
      from = start;
      draw();
    } catch (err) {
      sayRefusal(err);
    }
  }

  load();
  return {
    show() {},
    close() {
      closed = true;
      change.cancel();
      quiet();
    },
  };
}
