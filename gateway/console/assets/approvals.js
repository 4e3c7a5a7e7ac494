// The page of changes that wait for another person's approval: listed, compared and decided.

import { reviews as ask } from "./api.js";
import { confirm, refusalText, say, sayRefusal } from "./dialogs.js";
import { button, h, put } from "./dom.js";
import { ago, dateTime, t } from "./i18n.js";
import { shown } from "./names.js";
import { me } from "./session.js";

// offered tells whether there is such a page.
export const offered = () => me.access_control;

// value is one line of a key, with the sign of a difference.
const value = (sign, text) => (text === undefined ? "" : `${sign}${text}\n`);

function part(one) {
  const text = one.diff ?? value("- ", one.old) + value("+ ", one.new);
  return h("div", null, h("p", null, h("b", { class: "mono" }, shown(one.what)), " ", h("span", { class: "badge" }, t(`approvals.${one.kind}`))),
    text ? h("pre", { class: "mono" }, text) : null, one.cut ? h("p", { class: "hint" }, t("approvals.cut")) : null);
}

export function open(main) {
  const list = h("section", { class: "card", id: "reviews" });
  const compared = h("section", { class: "card", id: "compared", hidden: true });
  put(main, h("div", { class: "status" }, list, compared));
  let closed = false;

  async function load() {
    let rows;
    try {
      rows = (await ask.list()).changes.map((one) => h("tr", { id: `change-${one.number}` },
        h("td", null, String(one.number)), h("td", null, shown(one.by)), h("td", { class: "when", title: dateTime(one.made) }, ago(one.made)),
        h("td", { class: "mono" }, one.things.map(shown).join(", ")), h("td", null, one.comment ?? ""),
        h("td", null, button(t("approvals.show"), () => show(one), { id: `show-${one.number}` }))));
    } catch (err) {
      rows = h("p", { class: "note", role: "alert" }, refusalText(err));
    }
    if (closed) return;
    const names = ["number", "by", "made", "things", "comment"];
    put(list, h("h2", null, t("approvals.title")), button(t("approvals.again"), load, { id: "reviews-again" }),
      !Array.isArray(rows) ? rows : rows.length === 0 ? h("p", { class: "note" }, t("approvals.none"))
        : h("div", { class: "table-box", tabindex: "0" }, h("table", { class: "table" },
          h("thead", null, h("tr", null, names.map((name) => h("th", null, t(`approvals.${name}`))), h("th"))), h("tbody", null, rows))));
  }

  async function show(one) {
    try {
      const change = await ask.show(one.number);
      if (closed) return;
      const verbs = one.by === me.name ? ["withdraw"] : ["approve", "reject"];
      compared.hidden = false;
      put(compared, h("h2", null, t("approvals.sure", { number: one.number, by: shown(one.by) })),
        change.outdated ? h("p", { class: "note", role: "alert" }, t("approvals.outdated")) : null,
        change.parts.map(part), change.next ? h("p", { class: "hint" }, t("approvals.cut")) : null,
        h("p", null, verbs.map((how) => button(t(`approvals.${how}`), () => decide(how, one), { id: `${how}-${one.number}`, disabled: how === "approve" && change.outdated }))));
    } catch (err) {
      sayRefusal(err);
    }
  }

  async function decide(how, one) {
    const action = t(`approvals.${how}`);
    const text = t("approvals.sure", { number: one.number, by: shown(one.by) });
    if (!(await confirm({ title: action, text, action, submit: () => ask.decide(how, one.number) })) || closed) return;
    say(t("approvals.done", { number: one.number }));
    compared.hidden = true;
    load();
  }

  load();
  return { show() {}, close: () => (closed = true) };
}
