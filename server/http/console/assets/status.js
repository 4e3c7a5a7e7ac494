// The page of the server's state. The server keeps samples of the last minutes; from
// the moment the console is opened on they are gone on with here.

import { Refusal, samples as askSamples, session, status as ask } from "./api.js";
import { barChart, lineChart } from "./charts.js";
import { refusalText } from "./dialogs.js";
import { h, put } from "./dom.js";
import { ago, bytes, dateTime, latency, number, span, t } from "./i18n.js";
import { name as nameOf } from "./names.js";
import { problemText } from "./problems.js";
import { may } from "./session.js";
import { scrolled, table } from "./tables.js";

const INTERVAL = 2000;
const PATIENCE = 5000; // with a server that does not answer
const SPAN = 300_000; // of the charts
const SHORT = 60_000; // in the beginning
const samples = []; // {at, started, connections, requests, http, pushes}
let latest = null; // the newest answer
let failed = null; // or why there is none
let mayNot = false; // who is here may not know it
let redraw = () => {};

// earlier takes in what the server has kept, in the time of this machine's clock.
async function earlier() {
  try {
    const kept = await askSamples();
    const shift = Date.now() - kept.now_ms;
    const first = samples[0]?.at ?? Infinity;
    samples.unshift(...kept.samples.map((one) => ({
      at: one.at_ms + shift, started: kept.started_ms, connections: one.connections, requests: one.requests_total, http: one.http_requests_total, pushes: one.pushes_total,
    })).filter((one) => one.at < first - INTERVAL / 4));
    redraw();
  } catch {
    // Then the charts begin now.
  }
}

// sample begins to ask, once, and pauses while there is nobody to ask for. heard is told each
// answer, null if there is none.
export function sample(heard, paused) {
  const once = async () => {
    if (document.hidden || paused()) return;
    mayNot ||= !may("status:read");
    try {
      if (mayNot) { // but whether the server is there, and still knows who asks
        await session.who(AbortSignal.timeout(PATIENCE));
        heard({});
        return;
      }
      latest = await ask(AbortSignal.timeout(PATIENCE));
      failed = null;
      heard(latest);
      const at = Date.now();
      samples.push({ at, started: latest.started_ms, connections: latest.connections, requests: latest.requests_total, http: latest.http.requests_total, pushes: latest.pushes_total });
      while (samples.length && samples[0].at < at - SPAN - 2 * INTERVAL) samples.shift();
    } catch (err) {
      failed = err.name === "TimeoutError" ? new Refusal(0, { error: "unreachable" }) : err;
      mayNot ||= err.status === 403;
      heard(err.status === 403 ? {} : null);
    }
    redraw();
  };
  if (!paused() && may("status:read")) earlier(); // who signs in loads the page again
  once();
  setInterval(once, INTERVAL);
}

// rates are the differences of a counter, per second; a restart of the server or
// a pause of the page is a gap. Answers that were late can come in the same millisecond.
function rates(counter) {
  const points = [];
  for (let i = 1; i < samples.length; i++) {
    const [before, after] = [samples[i - 1], samples[i]];
    const seconds = (after.at - before.at) / 1000;
    if (seconds <= 0) continue;
    const whole = after.started === before.started && seconds < 10;
    points.push({ at: after.at, value: whole ? Math.max(0, after[counter] - before[counter]) / seconds : null });
  }
  return points;
}

export function open(main) {
  const cards = h("dl", { class: "cards", id: "cards" });
  const charts = h("div", { class: "charts", id: "charts" });
  const delays = h("section", { class: "card", id: "latency" });
  const slow = h("section", { class: "card", id: "slow" });
  const problems = h("section", { class: "card", id: "problems", hidden: true });
  const note = h("p", { class: "note", role: "alert" });
  put(main, h("div", { class: "status" }, note, cards, problems, charts, h("div", { class: "two" }, delays, slow)));

  function draw() {
    put(note, failed ? refusalText(failed) : null);
    if (!latest) return;
    const s = latest;
    const card = (name, value, small, kind) => h("div", { class: `card figure ${kind ?? ""}` }, h("dt", null, t(`status.${name}`)), h("dd", null, value, small ? h("small", null, small) : null));
    put(cards,
      card("version", s.version),
      card("uptime", span(s.uptime_ms), t("status.since", { when: dateTime(s.started_ms) })),
      s.config ? card("files", number(s.config.files), s.config.broken ? h("a", { class: "bad", id: "card-broken", href: "#/configs//broken" }, t("count.broken", { n: s.config.broken })) : t("status.allGood"), s.config.broken ? "bad" : "") : null,
      s.store ? card("keys", number(s.store.keys), `${t("store.totalNs", { n: s.store.namespaces })} · ${bytes(s.store.bytes)}`) : null,
      s.store ? card("disk", bytes(s.store.disk_bytes), t("status.free", { size: bytes(s.store.free_bytes) })) : null,
      s.store ? card("revision", number(s.store.revision), t("status.commits", { n: s.store.commits_total })) : null,
      card("clients", h("a", { href: "#/clients" }, number(s.clients)), t("status.ofConnections", { n: s.connections })),
      card("requests", number(s.requests_total), t("status.pushesTotal", { n: s.pushes_total })));
    drawProblems(s.config?.problems ?? []);
    const now = Date.now();
    const width = Math.min(SPAN, Math.max(SHORT, now - (samples[0]?.at ?? now)));
    const under = t("status.last", { span: span(width) });
    const rate = (n) => t("status.perSecond", { n });
    put(charts,
      lineChart({ label: t("status.connections"), points: samples.map((p) => ({ at: p.at, value: p.connections })), now, span: width, under, color: 0, format: number }),
      lineChart({ label: t("status.requestRate"), points: rates("requests"), now, span: width, under, color: 1, format: rate }),
      lineChart({ label: t("status.httpRate"), points: rates("http"), now, span: width, under, color: 3, format: rate }),
      lineChart({ label: t("status.pushRate"), points: rates("pushes"), now, span: width, under, color: 2, format: rate }));
    drawDelays(s.latency ?? []);
    drawSlow(s.slow ?? []);
  }

  function drawProblems(list) {
    problems.hidden = !list.length;
    put(problems, h("h2", { class: "bad" }, t("status.problems")), h("ul", { class: "problems" }, list.map((one) => h("li", null,
      h("b", { class: "mono" }, one.kind === "file" ? h("a", { href: `#/configs/${encodeURIComponent(one.name)}` }, nameOf(one.name)) : nameOf(one.name)), h("span", null, problemText(one.text)),
      h("small", { title: dateTime(one.since_ms) }, ago(one.since_ms))))));
  }

  function drawDelays(kinds) {
    const shown = kinds.filter((kind) => kind.count > 0);
    put(delays, h("h2", null, t("status.latency")), h("p", { class: "hint" }, t("status.latencyHint")),
      shown.length ? shown.map((kind, i) => h("div", { class: "delay" },
        h("div", { class: "delay-head" }, h("b", null, t(`latency.${kind.kind}`)),
          h("span", null, ["p50", "p99"].map((part) => [h("span", { class: "quantile" }, `${part} `, h("b", null, latency(kind[`${part}_ms`] / 1000)))]), h("span", { class: "quantile" }, t("status.count", { n: kind.count })))),
        barChart({ label: t(`latency.${kind.kind}`), color: i, bars: used(kind).map((b) => ({ label: b.label, value: b.count })) })))
        : h("p", { class: "note" }, t("status.noLatency")));
  }

  function drawSlow(list) {
    put(slow, h("h2", null, t("status.slow")),
      list.length ? scrolled(t("status.slow"), table(["when", "request", "duration"].map((name) => t(`status.${name}`)), list.map((one) => [h("td", { class: "when", title: dateTime(one.when_ms) }, ago(one.when_ms)),
        h("td", { class: "mono" }, one.name, " ", h("span", { class: "badge" }, one.kind)), h("td", { class: "duration" }, latency(one.duration_ms / 1000))])))
        : h("p", { class: "note" }, t("status.noSlow")));
  }

  redraw = draw;
  draw();
  return { show() {}, close: () => (redraw = () => {}) };
}

// used are the buckets between the first and the last that has something.
function used({ buckets }) {
  const first = buckets.findIndex((b) => b.count > 0);
  const last = buckets.findLastIndex((b) => b.count > 0);
  return buckets.slice(Math.max(0, first), last + 1).map((b) => ({ label: `≤ ${latency(b.le_ms / 1000)}`, count: b.count }));
}
