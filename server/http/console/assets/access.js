// The page of tokens and sessions: made, revoked and ended.

import { auth as ask } from "./api.js";
import { confirm, dialog, refusalText, say } from "./dialogs.js";
import { button, h, put } from "./dom.js";
import { ago, dateTime, t } from "./i18n.js";
import { shown } from "./names.js";
import { scrolled, table } from "./tables.js";
import { leave, me } from "./session.js";

const DAY = 86_400_000;

// all asks page after page.
async function all(page, list) {
  const found = [];
  for (let after; ;) {
    const answer = await page(after);
    found.push(...(answer[list] ?? []));
    if (!answer.next) return found;
    after = answer.next;
  }
}

const moment = (ms) => h("td", { class: "when", title: ms ? dateTime(ms) : null }, ms ? ago(ms) : "–");
const until = (ms) => h("td", { class: "when" }, ms ? dateTime(ms) : "–");

function listed(label, names, rows, none) {
  if (!rows.length) return h("p", { class: "note" }, none);
  return scrolled(label, table([...names.map((name) => t(`access.${name}`)), ""], rows));
}

export function open(main) {
  const own = h("section", { class: "card", id: "own" });
  const tokens = h("section", { class: "card", id: "tokens" });
  const sessions = h("section", { class: "card", id: "sessions" });
  put(main, h("div", { class: "status" }, own, tokens, sessions));
  let closed = false;

  put(own, h("h2", null, t("access.own")), h("p", { class: "mono" }, shown(me.name)),
    h("p", { class: "hint" }, me.groups?.length ? t("access.ownGroups", { groups: me.groups.map(shown).join(", ") }) : t("access.noGroups")),
    button(t("access.leaveAll"), () => leave(true), { id: "sign-out-all" }));

  async function load(part, fill) {
    try {
      const content = await fill();
      if (!closed) put(part, content);
    } catch (err) {
      if (!closed) put(part, h("h2", null, t(part === tokens ? "access.tokens" : "access.sessions")), h("p", { class: "note", role: "alert" }, refusalText(err)));
    }
  }

  const showTokens = () => load(tokens, async () => {
    const list = await all((after) => ask.tokens(after), "tokens");
    list.sort((a, b) => b.made - a.made);
    return [h("h2", null, t("access.tokens")), button(t("access.make"), make, { icon: "plus", id: "make-token" }),
      listed(t("access.tokens"), ["name", "groups", "made", "used", "expires"], list.map((one) => h("tr", null,
        h("td", { class: "whom" }, h("b", null, shown(one.name)), " ", h("small", { class: "mono" }, one.id)), h("td", null, (one.groups ?? []).map(shown).join(", ") || "–"),
        moment(one.made), moment(one.used), until(one.expires),
        h("td", null, button(t("access.revoke"), () => revoke(one), { icon: "trash", bare: true, id: `revoke-${one.id}` })))), t("access.noTokens"))];
  });

  const showSessions = () => load(sessions, async () => {
    const list = await all((after) => ask.sessions(after), "sessions");
    list.sort((a, b) => b.used - a.used);
    return [h("h2", null, t("access.sessions")),
      listed(t("access.sessions"), ["who", "from", "made", "used", "expires"], list.map((one) => h("tr", null,
        h("td", { class: "whom" }, h("b", null, shown(one.who)), one.id === me.id ? [" ", h("span", { class: "badge" }, t("access.this"))] : null), h("td", { class: "mono place" }, one.from ?? ""),
        moment(one.made), moment(one.used), until(one.expires),
        h("td", null, button(t("access.end"), () => end(one), { icon: "trash", bare: true, id: `end-${one.id}` })))), t("access.noSessions"))];
  });

  async function make() {
    const name = h("input", { type: "text", id: "token-name", autocomplete: "off", autofocus: true });
    const groups = h("input", { type: "text", id: "token-groups", autocomplete: "off" });
    const days = h("input", { type: "text", id: "token-days", inputmode: "numeric", autocomplete: "off" });
    const field = (label, input) => h("label", { class: "field" }, h("span", null, t(label)), input);
    const made = await dialog({
      title: t("access.make"), id: "token-dialog",
      body: [field("access.forWhom", name), field("access.ofGroups", groups), field("access.days", days)],
      actions: [{ label: t("cancel"), value: null }, { label: t("access.make"), id: "token-make", main: true, submit: async () => {
        const count = Number(days.value.trim() || 0);
        if (!Number.isFinite(count) || count < 0) {
          days.focus();
          return false;
        }
        return ask.make({ name: name.value.trim(), groups: groups.value.split(",").map((g) => g.trim()).filter(Boolean), ttl: Math.round(count * DAY) || undefined });
      } }],
    });
    if (!made) return;
    showTokens();
    const text = h("input", { type: "text", class: "mono", id: "token-text", "aria-label": t("access.once"), readonly: true, value: made.text, autofocus: true });
    await dialog({
      title: t("access.once"), id: "token-shown", wide: true,
      body: [h("p", null, t("access.onceText")), text],
      actions: [{ label: t("close"), value: null, main: true, id: "token-close" }],
    });
  }

  async function revoke(one) {
    let made = [];
    const sure = (title, text, submit) => confirm({ title, text, action: title, submit });
    if (!await sure(t("access.revoke"), t("access.revokeText", { name: shown(one.name) }), async () => { made = (await ask.revoke(one.id)).made ?? []; })) return;
    say(t("access.revoked", { name: shown(one.name) }));
    if (made.length) {
      await sure(t("access.revokeMade"), t("access.madeText", { name: shown(one.name), names: made.map((m) => `${shown(m.name)} (${m.id})`).join(", ") }), async () => {
        for (const m of made) await ask.revoke(m.id).catch((err) => { if (err.status !== 404) throw err; });
      });
    }
    showTokens();
    showSessions();
  }

  async function end(one) {
    if (await confirm({ title: t("access.end"), text: t("access.endText", { who: shown(one.who) }), action: t("access.end"), submit: () => ask.end(one.id) })) showSessions();
  }

  showTokens();
  showSessions();
  return { show() {}, close: () => (closed = true) };
}
