// The page of changes that wait for another person's approval: listed, compared and decided.

import { reviews as ask } from "./api.js";
import { confirm, refusalText, say, sayRefusal } from "./dialogs.js";
import { button, h, put } from "./dom.js";
import { ago, dateTime, t } from "./i18n.js";
import { shown } from "./names.js";
import { commentField } from "./past.js";
import { me } from "./session.js";
import { scrolled, table } from "./tables.js";

// value is one line of a key, with the sign of a difference.
const value = (sign, text) => (text === undefined ? "" : `${sign}${text}\n`);

function part(one) {
  const text = one.diff ?? value("- ", one.old) + value("+ ", one.new);
  const terms = [one.ttl && t("approvals.ttl", { n: one.ttl / 1000 }), one.expires && t("approvals.expires", { at: dateTime(one.expires) }), one.if && t("approvals.if", { text: shown(one.if) })].filter(Boolean);
  return h("div", null, h("p", null, h("b", { class: "mono" }, shown(one.what)), " ", h("span", { class: "badge" }, t(`approvals.${one.kind}`))),
    text ? h("pre", { class: "mono" }, text) : null, terms.map((term) => h("p", null, term)), one.cut ? h("p", { class: "hint" }, t("approvals.cut")) : null);
}

const PAGE = 100; // changes that are shown at a time

const moment = (ms) => h("td", { class: "when", title: dateTime(ms) }, ago(ms));
const things = (one) => h("td", { class: "mono" }, one.things.map(shown).join(", "), one.count > one.things.length ? ` ${t("names.more", { n: one.count - one.things.length })}` : null);

const listed = (label, names, rows) => scrolled(label, table(names.map((name) => t(`approvals.${name}`)), rows));

export function open(main) {
  const list = h("section", { class: "card", id: "reviews" });
  const compared = h("section", { class: "card", id: "compared", hidden: true });
  const past = h("section", { class: "card", id: "decided", hidden: true });
  put(main, h("div", { class: "status" }, list, compared, past));
  let closed = false;
  let pages = 1; // of changes that wait are shown

  // waiting are the changes that wait, as many as are shown, and whether there are more.
  async function waiting() {
    const found = [];
    for (let after; ;) {
      const answer = await ask.list({ after, limit: PAGE });
      found.push(...answer.changes);
      if (!answer.next || found.length >= pages * PAGE) return { found, more: Boolean(answer.next) };
      after = answer.next;
    }
  }

  // decided are those that were decided last, the last first.
  async function decided() {
    const found = [];
    for (let after; ;) {
      const answer = await ask.list({ all: true, after, limit: 1000 });
      found.push(...answer.changes.filter((one) => one.decided));
      if (!answer.next) return found.sort((a, b) => b.decided - a.decided).slice(0, PAGE);
      after = answer.next;
    }
  }

  async function load() {
    let content;
    try {
      const { found, more } = await waiting();
      const rows = found.map((one) => h("tr", { id: `change-${one.number}` },
        h("td", null, String(one.number)), h("td", { class: "whom" }, shown(one.by)), moment(one.made), things(one), h("td", null, one.comment ?? ""),
        h("td", null, button(t("approvals.show"), () => show(one), { id: `show-${one.number}` }))));
      content = [rows.length === 0 ? h("p", { class: "note" }, t("approvals.none")) : listed(t("approvals.title"), ["number", "by", "made", "things", "comment", "compare"], rows),
        more ? button(t("approvals.more"), () => {
          pages++;
          load();
        }, { id: "reviews-more" }) : null];
    } catch (err) {
      content = h("p", { class: "note", role: "alert" }, refusalText(err));
    }
    if (closed) return;
    put(list, h("h2", null, t("approvals.title")), button(t("approvals.again"), load, { id: "reviews-again" }), content);
    loadDecided();
  }

  async function loadDecided() {
    let found = [];
    try {
      found = await decided();
    } catch {
      // it was said of those that wait
    }
    if (closed) return;
    past.hidden = found.length === 0;
    put(past, h("h2", null, t("approvals.decided")), listed(t("approvals.decided"), ["number", "by", "things", "state", "decider", "when", "reason"], found.map((one) => h("tr", { id: `decided-${one.number}` },
      h("td", null, String(one.number)), h("td", { class: "whom" }, shown(one.by)), things(one), h("td", null, h("span", { class: "badge" }, t(`approvals.${one.state}`))),
      h("td", { class: "whom" }, shown(one.decider ?? "")), moment(one.decided), h("td", null, one.reason ?? "")))));
  }

  async function show(one) {
    try {
      const change = await ask.show(one.number);
      if (closed) return;
      const verbs = one.by === me.name ? ["withdraw"] : ["approve", "reject"];
      compared.hidden = false;
      put(compared, h("h2", { id: "compared-title", tabindex: "-1" }, t("approvals.sure", { number: one.number, by: shown(one.by) })),
        change.outdated ? h("p", { class: "note", role: "alert" }, t("approvals.outdated")) : null,
        change.parts.map(part), change.next ? h("p", { class: "hint" }, t("approvals.cut")) : null,
        h("p", { class: "actions" }, verbs.map((how) => button(t(`approvals.${how}`), () => decide(how, one), { id: `${how}-${one.number}`, disabled: how === "approve" && change.outdated }))));
      compared.scrollIntoView({ block: "nearest" });
      compared.querySelector("#compared-title").focus({ preventScroll: true });
    } catch (err) {
      sayRefusal(err);
    }
  }

  async function decide(how, one) {
    const action = t(`approvals.${how}`);
    const text = t("approvals.sure", { number: one.number, by: shown(one.by) });
    const comment = how === "withdraw" ? null : commentField("decision-comment");
    const more = comment && h("label", { class: "field" }, h("span", null, t("comment.why")), comment);
    if (!(await confirm({ title: action, text, more, action, submit: () => ask.decide(how, one.number, comment?.value.trim()) })) || closed) return;
    say(t("approvals.done", { number: one.number }));
    compared.hidden = true;
    load();
  }

  load();
  return { show() {}, close: () => (closed = true) };
}
