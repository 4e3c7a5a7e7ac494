// The frame around the pages: where one is, language, theme, live or not.

import { whenRefused } from "./api.js";
import { refusalText } from "./dialogs.js";
import { button, h, icon, put, steady } from "./dom.js";
import { currentLanguage, dateTime, remember, switchLanguage, t } from "./i18n.js";
import { problemText } from "./problems.js";
import * as access from "./access.js";
import * as approvals from "./approvals.js";
import * as audit from "./audit.js";
import * as bench from "./bench.js";
import * as clients from "./clients.js";
import * as configs from "./configs.js";
import * as flow from "./flow.js";
import * as session from "./session.js";
import * as status from "./status.js";
import * as storage from "./storage.js";
import * as store from "./store.js";
import { unsaved as unsavedKeys } from "./entry.js";

const pages = { configs, store, storage, flow, bench, clients, status, approvals, audit, access };

// NEEDS are the rights of which one is enough for a page to show something. What else one sees and
// does there, the server decides for each thing. Of reviews everyone sees their own.
const NEEDS = {
  configs: ["config:read", "config:watch"], store: ["kv:read"], storage: ["storage:read", "landing:read"], flow: ["flow:read"], bench: ["bench:read"],
  clients: ["clients:read"], status: ["status:read"], approvals: ["review:read"], audit: ["audit:read"], access: ["roles:read"],
};
const ABOUT_CONTROL = ["approvals", "audit", "access"]; // pages of which there is nothing without access control
const isThere = (name) => session.me.access_control || !ABOUT_CONTROL.includes(name);
const isOffered = (name) => isThere(name) && NEEDS[name].some(session.may);
const THEMES = ["auto", "light", "dark"];

const header = h("header", { class: "top" });
const sick = h("div", { class: "banners", role: "alert", id: "troubles" });
const mayNot = h("div", { class: "banners", role: "alert", id: "refused" }); // why the page has no news
const gate = h("div", { id: "gate", hidden: true }); // in place of main while no one is signed in
const main = h("main", { id: "main", tabindex: "-1" });
const live = h("span", { class: "live", role: "status", id: "live" });
let page = null; // {name, view}
let liveState = "none"; // of the page's stream, if it has one
let liveText = ""; // that is shown
let answers = true; // the server does
let troubles = []; // that it told last
let open = []; // addresses that everybody reaches
let shown = ""; // of both

// where takes the address apart: page and the names behind it.
function where() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { name: Object.hasOwn(pages, parts[0]) ? parts[0] : Object.keys(pages).find(isOffered) ?? "configs", rest: parts.slice(1) };
}

// openPage opens a page, or says why there is nothing on it: who has followed an address to a page
// that is not offered must learn what is missing. On the page of access everyone sees who they are.
function openPage(name) {
  if (isOffered(name) || (name === "access" && isThere(name))) return pages[name].open(main, { live: showLive });
  const [what, verb] = NEEDS[name][0].split(":");
  put(main, h("div", { class: "empty" }, h("div", { class: "empty-text", id: "missing" }, icon("warn"), h("p", { role: "alert" }, isThere(name) ? t("page.missing", { verb, what }) : t("page.noControl")))));
  return { show() {}, close() {} };
}

function showLive(told) {
  liveState = told;
  // A stream that is cut off somewhere between looks open for long.
  const state = answers && told !== "waiting" ? "live" : "waiting";
  const text = t(`live.${state}`);
  if (liveText === text) return;
  liveText = text;
  live.dataset.state = state;
  put(live, h("i"), h("span", null, text));
}

function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function setTheme(to) {
  if (to === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = to;
  remember("confcenter.theme", to === "auto" ? "" : to);
  drawHeader();
}

// drawHeader draws the header in another language or theme. Going to another page
// only moves the mark: what is drawn anew while a button is down tells no click.
function drawHeader() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  const other = currentLanguage() === "en" ? "zh" : "en";
  put(header,
    h("a", { class: "skip", href: "#main", on: {
      click: (event) => {
        event.preventDefault();
        main.focus();
      },
    } }, t("skip")),
    h("a", { class: "brand", href: "#/", "aria-label": "confcenter" }, h("img", { src: "icon.svg", alt: "", width: 24, height: 24 }), h("b", null, "confcenter")),
    session.known() ? h("nav", { "aria-label": t("nav") }, Object.keys(pages).filter(isOffered).map((name) =>
      h("a", { href: `#/${name}`, id: `nav-${name}` }, t(`page.${name}`)))) : null,
    h("div", { class: "switches" }, live, session.badge(),
      h("button", { type: "button", class: "btn bare lang", id: "language", lang: other === "zh" ? "zh-CN" : "en", title: t("language.switch"),
        on: { click: () => setLanguage(other) } }, other === "zh" ? "中文" : "English"),
      button(t("theme.switch", { theme: t(`theme.${theme()}`) }), () => setTheme(next),
        { icon: { auto: "auto", light: "sun", dark: "moon" }[theme()], bare: true, id: "theme" })));
  markPage();
}

function markPage() {
  const here = `nav-${where().name}`;
  for (const link of header.querySelectorAll("nav a")) {
    if (link.id === here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showTab();
}

// showTab scrolls the navigation, where not all of it has room, to where one is.
function showTab() {
  const link = header.querySelector("nav a[aria-current]"), nav = link?.parentElement;
  if (nav) nav.scrollLeft = link.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2;
}

function setLanguage(to) {
  switchLanguage(to);
  page?.view.close();
  page = null;
  drawHeader();
  show();
}

// askWho shows the page to sign in on. What was begun stays behind it, for the one who began it.
function askWho() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  main.hidden = true;
  gate.hidden = false;
  document.title = `${t("signin.title")} · confcenter`;
  put(gate, session.form(() => {
    put(gate);
    gate.hidden = true;
    main.hidden = false;
    page = page && { ...page, name: "" }; // it is drawn again
    drawHeader();
    show();
  }));
  drawHeader();
}

function show() {
  if (!session.known()) {
    askWho();
    return;
  }
  const { name, rest } = where();
  if (page?.name !== name) {
    page?.view.close();
    showLive("none");
    put(main);
    put(mayNot);
    document.title = `${t(`page.${name}`)} · confcenter`;
    main.className = `page-${name}`;
    page = { name, view: openPage(name) };
    main.prepend(h("h1", { class: "hidden", id: "page-title" }, t(`page.${name}`)));
  }
  page.view.show(...rest);
  markPage();
  showLive(liveState);
  showTroubles();
}

// showTroubles says on every page which store takes no writes, and why, and that everybody
// gets in.
function showTroubles() {
  const texts = troubles.map((one) => `${t(`trouble.${one.kind === "damaged" ? "damaged" : one.store}`)} ${problemText(one.text)} ${t(one.restart ? "trouble.restart" : "trouble.since", { when: dateTime(one.since_ms), dir: one.dir })}`);
  if (open.length > 0) texts.push(t("open", { addresses: open.join(", ") }));
  if (texts.join() === shown) return; // or it would be read out every two seconds
  shown = texts.join();
  put(sick, texts.map((text) => h("div", { class: "banner bad" }, icon("warn"), h("span", null, text))));
}

window.addEventListener("hashchange", () => steady(main, show));
window.addEventListener("resize", showTab);
window.addEventListener("beforeunload", (event) => {
  if (configs.unsaved() || unsavedKeys()) event.preventDefault();
});

document.body.append(header, sick, mayNot, gate, main);
whenRefused((err) => put(mayNot, h("div", { class: "banner warn" }, icon("warn"), h("span", null, refusalText(err)))));
await session.load();
session.watch(askWho);
status.sample((answer) => {
  answers = answer !== null;
  showLive(liveState);
  if (!answers) return;
  troubles = answer.troubles ?? [];
  open = answer.open ?? [];
  showTroubles();
}, () => !session.known());
drawHeader();
show();
document.documentElement.dataset.ready = "true";
