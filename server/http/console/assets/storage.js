// The page of player storage: the owners of a region, the fields of one, and what of
// them the database has not got yet or has refused.

import { landing, storage as api } from "./api.js";
import { confirm, refusalText, say, sayRefusal } from "./dialogs.js";
import { button, debounce, h, icon, put, putScrolled } from "./dom.js";
import { ago, dateTime, number, span, t } from "./i18n.js";
import { createList } from "./list.js";
import { name as nameOf, value as valueOf } from "./names.js";
import { table } from "./tables.js";

const INTERVAL = 2000;
const OWNERS = 500; // asked for at a time
const FIELDS = 500;
const SHOWN = 200; // characters of a value
const narrow = matchMedia("(max-width: 760px)");

const link = (owner) => ["#/storage", ...owner.map(encodeURIComponent)].join("/");
const go = (owner) => (location.hash = link(owner));
const ownerOf = (one) => [one.appId, one.regionId, one.logicType, one.ownerId];

export function open(main) {
  let place = []; // app and region
  let owner = null; // all four ids
  let regions = [];
  let owners = []; // loaded: {logicType, ownerId}
  let next = ""; // where the next owners begin
  let total = null;
  let loading = null; // aborts the owners being loaded
  let most = FIELDS;
  let tables = null; // the dirty tables as they were told last
  let refused = { errors: [] };
  const gone = new AbortController();

  const region = h("select", { id: "region", "aria-label": t("storage.region"), on: { change: () => go(region.value.split("/").map(decodeURIComponent)) } });
  const kind = h("input", { type: "search", class: "mono", id: "kind", placeholder: t("storage.kind"), "aria-label": t("storage.kind"), autocomplete: "off", spellcheck: "false", on: { input: debounce(200, restart) } });
  const id = h("input", { type: "search", class: "mono", id: "owner-id", placeholder: t("storage.id"), "aria-label": t("storage.id"), autocomplete: "off", spellcheck: "false", on: {
    input: drawOwners,
    keydown: (event) => {
      if (event.key === "Enter" && kind.value && id.value) go([...place, kind.value, id.value]);
    },
  } });
  const count = h("span", { id: "owner-count", role: "status" });
  const note = h("p", { class: "note" });
  const list = createList({
    label: t("storage.owners"), id: "owners", rowHeight: 34,
    row: (one) => h("div", { class: "owner-row" }, h("span", { class: "mono" }, nameOf(one.logicType)), h("b", { class: "mono" }, nameOf(one.ownerId))),
    choose: (one) => go([...place, one.logicType, one.ownerId]), nearEnd: () => next && loadOwners(),
  });
  const detail = h("section", { class: "pane detail owner", hidden: true });
  const backlog = h("section", { class: "pane detail landing" });
  const split = h("div", { class: "split storage", data: { pane: "list" } },
    h("section", { class: "pane keys" }, h("div", { class: "pane-tools" }, region, kind, h("div", { class: "search" }, icon("search"), id)), note, list.el, h("div", { class: "pane-foot" }, count)),
    detail, backlog);
  put(main, split);

  // ---- owners

  function restart() {
    loading?.abort();
    loading = null;
    owners = [];
    next = "";
    total = null;
    if (place.length) loadOwners();
    else drawOwners();
  }

  async function loadOwners() {
    if (loading) return;
    const mine = loading = new AbortController();
    try {
      const first = !owners.length;
      const got = await api.owners(place, { kind: kind.value, after: next, limit: OWNERS }, mine.signal);
      owners.push(...got.owners);
      next = got.more ? got.next : "";
      drawOwners();
      if (first) total = (await api.countOwners(place, kind.value, mine.signal)).count;
      drawOwners();
    } catch (err) {
      sayRefusal(err);
    } finally {
      if (loading === mine) loading = null;
    }
  }

  function drawOwners() {
    const wanted = id.value.trim();
    list.set(owners.filter((one) => one.ownerId.includes(wanted)));
    list.select((one) => owner && one.logicType === owner[2] && one.ownerId === owner[3]);
    put(count, total === null ? null : t("storage.count", { n: total }));
    put(note, !regions.length ? t("storage.none") : total === 0 ? t("storage.noOwners") : null);
  }

  function drawRegions() {
    const chosen = place.map(encodeURIComponent).join("/");
    const all = regions.map((one) => [one.appId, one.regionId]);
    if (place.length && !all.some((one) => one.join("/") === place.join("/"))) all.push(place);
    put(region, all.map((one) => {
      const value = one.map(encodeURIComponent).join("/");
      return h("option", { value, prop: { selected: value === chosen } }, one.join(" / "));
    }));
  }

  // ---- the fields of one

  async function loadFields() {
    const asked = owner;
    if (!asked) return;
    try {
      const got = await api.fields(asked, most, gone.signal);
      if (asked === owner) drawFields(got);
    } catch (err) {
      if (err.name !== "AbortError" && asked === owner) drawFields({ fields: {} }, refusalText(err));
    }
  }

  function drawFields(got, fault) {
    const dirty = new Set(got.dirty ?? []);
    const lands = tables?.length > 0;
    const texts = Object.entries(got.fields).map(([name, text]) => ({ name, text }));
    const octets = Object.entries(got.bytes ?? {}).map(([name, text]) => ({ name, text, octets: true }));
    const rows = [...texts, ...octets].sort((a, b) => (a.name < b.name ? -1 : 1));
    const broken = new Map(refused.errors.filter((one) => ownerOf(one).join("\0") === owner.join("\0")).map((one) => [one.name, one]));
    const state = (name) => {
      if (broken.has(name)) return h("span", { class: "badge broken", title: broken.get(name).reason }, t("storage.refused"));
      return dirty.has(name) ? h("span", { class: "badge unsaved" }, t("storage.dirty")) : h("span", { class: "badge good" }, t("storage.landed"));
    };
    putScrolled(detail,
      h("div", { class: "detail-head" }, button(t("back"), () => go(place), { icon: "back", bare: true, id: "back-owners" }),
        h("div", { class: "titles" }, h("h2", { id: "owner-name" }, nameOf(owner[3])), h("p", { class: "meta" }, nameOf(owner[2]), " · ", nameOf(owner[0]), " / ", nameOf(owner[1])))),
      h("div", { class: "entry-scroll", tabindex: "0" },
        fault ? h("p", { class: "note" }, fault) : rows.length ? null : h("p", { class: "note" }, t("storage.noFields")),
        rows.length ? table(["field", "value", "version", ...(lands ? ["state"] : [])].map((name) => t(`storage.${name}`)),
          rows.map((row) => [h("td", { class: "mono" }, nameOf(row.name)),
            h("td", { class: "mono" }, row.octets ? h("span", { class: "badge" }, "base64") : null, valueOf(row.text.length > SHOWN ? `${row.text.slice(0, SHOWN)}…` : row.text, "string")),
            h("td", { class: "mono" }, String(got.versions?.[row.name] ?? "")), ...(lands ? [state(row.name)] : [])]), { id: "fields" }) : null,
        got.more ? h("p", { class: "note" }, button(t("more"), () => {
          most += FIELDS;
          loadFields();
        }, { id: "more-fields" })) : null));
  }

  // ---- landing

  async function loadLanding() {
    try {
      const told = await landing.status(gone.signal);
      tables = told.tables;
      refused = tables.some((one) => one.errors || one.dropped) ? await landing.errors(gone.signal) : { errors: [] };
      drawLanding(told.now_ms);
    } catch (err) {
      if (err.name !== "AbortError") put(backlog, h("p", { class: "note" }, refusalText(err)));
    }
  }

  const sum = (what) => tables.reduce((n, one) => n + one[what], 0);

  function drawLanding(now) {
    putScrolled(backlog,
      h("div", { class: "detail-head" }, h("div", { class: "titles" }, h("h2", null, t("storage.landing")),
        h("p", { class: "meta", id: "landing-sum" }, tables.length ? [t("storage.backlog", { n: sum("dirty") }), " · ", t("storage.errorCount", { n: sum("errors") })] : t("storage.noDatabase")))),
      h("div", { class: "entry-scroll", tabindex: "0" },
        tables.length ? table(["list", "unlanded", "oldest", "errorsHead", "last", "rate"].map((name) => t(`storage.${name}`)),
          tables.map((one) => [h("td", { class: "mono" }, nameOf(one.list), one.saving ? h("span", { class: "badge new", title: one.saving }, t("storage.saving")) : null),
            number(one.dirty), one.oldest ? span(now - one.oldest) : "–", [number(one.errors), one.dropped ? ` + ${number(one.dropped)}` : ""],
            h("td", { title: one.last ? dateTime(one.last) : null }, one.last ? ago(one.last, now) : "–"), t("status.perSecond", { n: one.rate })]), { id: "dirty-tables" }) : null,
        refused.errors.length ? [h("h3", { class: "section-title" }, t("storage.errors")),
          h("div", { class: "actions" }, button(t("storage.retryAll"), () => retry([]), { id: "retry-all" }), sum("errors") ? button(t("storage.dropAll"), () => drop(null), { kind: "danger", id: "drop-all" }) : null),
          table(["owner", "field", "reason", "attempts", "again", "actions"].map((name) => t(`storage.${name}`)),
            refused.errors.map((one, i) => [
              h("td", { class: "mono" }, h("a", { href: link(ownerOf(one)) }, nameOf(one.logicType), ":", nameOf(one.ownerId))), h("td", { class: "mono" }, nameOf(one.name)), nameOf(one.reason),
              h("td", { title: t("storage.first", { when: dateTime(one.first) }) }, number(one.attempts)),
              one.dropped ? h("span", { class: "badge" }, t("storage.dropped")) : one.next > now ? span(one.next - now) : t("storage.soon"),
              h("td", { class: "actions" }, button(t("storage.retry"), () => retry([one]), { id: `retry-${i}` }), one.dropped ? null : button(t("storage.drop"), () => drop(one), { kind: "danger", id: `drop-${i}` }))]), { id: "refused" }),
          refused.more ? h("p", { class: "note" }, t("storage.moreErrors")) : null] : null));
  }

  async function retry(errors) {
    try {
      const { count: n } = await landing.retry(errors);
      say(t("storage.retried", { n }));
      loadLanding();
    } catch (err) {
      sayRefusal(err);
    }
  }

  async function drop(one) {
    const n = one ? 1 : sum("errors");
    const done = await confirm({
      title: t("storage.dropTitle", { n }), text: t("storage.dropAsk", { n }), action: one ? t("storage.drop") : t("storage.dropAll"), word: one?.name,
      submit: () => landing.drop(one, n),
    });
    if (done) loadLanding();
  }

  async function load() {
    if (document.hidden) return;
    await loadLanding();
    await loadFields();
  }

  async function begin() {
    try {
      ({ regions } = await api.regions(gone.signal));
      if (!place.length && regions.length) {
        place = [regions[0].appId, regions[0].regionId];
        restart();
      }
      drawRegions();
      drawOwners();
    } catch (err) {
      sayRefusal(err);
    }
    load();
  }

  const timer = setInterval(load, INTERVAL);
  const onNarrow = () => list.refresh();
  narrow.addEventListener("change", onNarrow);
  begin();
  return {
    show(...parts) {
      const [app, where, logic, whose] = parts.map((part) => part || undefined);
      if (app && where && (app !== place[0] || where !== place[1])) {
        place = [app, where];
        drawRegions();
        restart();
      }
      owner = logic && whose ? [app, where, logic, whose] : null;
      most = FIELDS;
      detail.hidden = !owner;
      backlog.hidden = Boolean(owner);
      split.dataset.pane = owner ? "detail" : "list";
      if (owner) put(detail);
      drawOwners();
      loadFields();
    },
    close() {
      clearInterval(timer);
      gone.abort();
      loading?.abort();
      narrow.removeEventListener("change", onNarrow);
      list.close();
    },
  };
}
