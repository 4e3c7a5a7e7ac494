// Who is at the browser, where the server wants to know: signing in and out.

import { session as ask, whenSignedOut } from "./api.js";
import { refusalText } from "./dialogs.js";
import { button, h, put } from "./dom.js";
import { has, t } from "./i18n.js";

// me is who that is: access_control, and with it name, groups, id, sign_in and may.
export let me = { access_control: false };

// may tells whether one has a right with anything, such as "config:read".
export const may = (right) => !me.access_control || (me.may ?? []).includes(right);

// known tells whether the pages may be shown.
export const known = () => !me.access_control || Boolean(me.name);

// load finds out, before anything is shown. Without an answer the pages say that there is none.
export async function load() {
  try {
    me = await ask.who();
  } catch {
    // Not now.
  }
}

// watch calls fn whenever the session is found to have ended.
export function watch(fn) {
  whenSignedOut(() => {
    if (!known()) return;
    me = { ...me, name: "", was: me.name };
    fn();
  });
}

// refused is why the provider's answer let nobody in, from the address that it led to.
function refused() {
  const [, reason] = /^#\/signin\/(\w+)$/.exec(location.hash) ?? [];
  if (!reason) return "";
  return t(has(`signin.${reason}`) ? `signin.${reason}` : "signin.internal");
}

// form is the page on which one signs in. done is called by whoever was here before: what they
// have begun stays.
export function form(done) {
  const fault = h("p", { class: "fault", role: "alert", id: "sign-in-fault" }, refused());
  const token = h("input", { type: "password", id: "sign-in-token", class: "mono", autocomplete: "off", spellcheck: "false", autofocus: true });
  const again = () => (location.hash.startsWith("#/signin") ? "" : location.hash);
  const act = async (fn) => {
    put(fault);
    try {
      await fn();
    } catch (err) {
      const text = { not_identified: "signin.token", unreachable: err.status ? "signin.unreachable" : "" }[err.reason]; // with a status the server is there
      put(fault, text ? t(text) : refusalText(err));
    }
  };
  const byToken = () => act(async () => {
    const was = me.was;
    const now = await ask.byToken(token.value.trim());
    token.value = "";
    if (was && was === now.name) {
      me = { ...me, ...now };
      done();
      return;
    }
    if (!again()) location.hash = "#/";
    location.reload();
  });
  const byProvider = () => act(async () => {
    const { location: to } = await ask.byProvider(again());
    location.assign(to);
  });
  return h("section", { class: "card signin", id: "signin" },
    h("h1", null, t("signin.title")), h("p", { class: "hint" }, t("signin.text")),
    me.sign_in?.includes("openid") ? button(t("signin.openid"), byProvider, { kind: "primary", id: "sign-in-openid" }) : null,
    h("form", { on: {
      submit: (event) => {
        event.preventDefault();
        byToken();
      },
    } }, h("label", { class: "field" }, h("span", null, t("signin.label")), token), h("button", { type: "submit", class: "btn", id: "sign-in" }, t("signin.go"))),
    fault);
}

// leave ends this session, or all in this name.
export async function leave(all) {
  try {
    await ask.end(all);
  } catch (err) {
    if (err.status !== 401) throw err; // it has ended already
  }
  location.reload(); // nothing of what was shown stays
}

// badge is who one is, and the way out; nothing without access control.
export function badge() {
  if (!me.access_control || !me.name) return null;
  return [h("a", { class: "who", id: "who", href: "#/access", title: (me.groups ?? []).join(", ") }, me.name),
    me.id ? button(t("signin.leave"), () => leave(false), { id: "sign-out" }) : null];
}
