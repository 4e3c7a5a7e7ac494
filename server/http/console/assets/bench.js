// The page of the bench: jobs with all that is below them, and the nodes that do them.

import { bench as api } from "./api.js";
import { confirm, refusalText, say } from "./dialogs.js";
import { button, h, icon, put, putScrolled } from "./dom.js";
import { bytes, number, t } from "./i18n.js";
import { createList } from "./list.js";
import { isolated, name as nameOf } from "./names.js";
import { badge, follow, history, moment, plain, table } from "./records.js";

const KINDS = ["jobs", "nodes"];
const STATUSES = ["QUEUED", "RUNNING", "FINISHED", "ABORTED"]; // of jobs
const PAGE = 1000; // asked for at a time
const MAX_RECORDS = 10_000; // that are read again with every change
const MIB = 2 ** 20;
const narrow = matchMedia("(max-width: 760px)");

const link = (kind, id) => ["#/bench", kind, ...(id ? [encodeURIComponent(id)] : [])].join("/");
const go = (kind, id) => (location.hash = link(kind, id));
const nodeLink = (id) => h("a", { class: "mono", href: link("nodes", id) }, nameOf(id));
const jobLink = (id) => h("a", { class: "mono", href: link("jobs", id) }, nameOf(id));
const labelsOf = (node) => (node.info.config.labels ?? []).map(({ k, v }) => `${k}=${v}`).join(", ");
const ended = (job) => job.status === "JOB_FINISHED" || job.status === "JOB_ABORTED";

export function open(main, { live }) {
  let kind = "jobs";
  let id = "";
  let records = []; // jobs or nodes
  let more = false;
  let most = PAGE;
  let following = null;

  const tabs = h("nav", { class: "tabs", "aria-label": t("page.bench") });
  const status = h("select", { id: "job-status", "aria-label": t("bench.status"), on: { change: restart } },
    h("option", { value: "" }, t("bench.every")), STATUSES.map((one) => h("option", { value: `JOB_${one}` }, one)));
  const filter = h("input", { type: "search", id: "bench-filter", placeholder: t("bench.filter"), "aria-label": t("bench.filter"), on: { input: drawList } });
  const count = h("span", { id: "bench-count", role: "status" });
  const note = h("p", { class: "note" });
  const list = createList({
    label: t("page.bench"), id: "records", rowHeight: 46, row: (one) => (kind === "jobs" ? jobRow(one) : nodeRow(one)), choose: (one) => go(kind, one.id),
    nearEnd: () => {
      if (!more || most > records.length || most >= MAX_RECORDS) return;
      most += PAGE;
      following?.now();
    },
  });
  const detail = h("section", { class: "pane detail record", hidden: true });
  const empty = h("section", { class: "empty" }, h("div", { class: "empty-text" }, icon("box"), h("p", null, t("bench.pick")), h("p", { class: "hint" }, t("bench.about"))));
  const split = h("div", { class: "split bench", data: { pane: "list" } },
    h("section", { class: "pane keys" }, h("div", { class: "pane-tools" }, tabs, status, h("div", { class: "search" }, icon("search"), filter)), note, list.el, h("div", { class: "pane-foot" }, count)),
    detail, empty);
  put(main, split);

  function restart() {
    records = [];
    most = PAGE;
    drawList();
    following?.now();
  }

  // concerns says whether a change is to be seen: heartbeats, of which there are many, only
  // where one node is shown.
  const concerns = (key) => (kind === "nodes" && id) || !/^node\/[^/]*\/beat$/.test(key);

  async function read(signal) {
    await Promise.all([readList(signal), readOne(signal)]);
  }

  async function readList(signal) {
    const asked = kind, wanted = kind === "jobs" ? status.value : "";
    const same = () => asked === kind && (asked !== "jobs" || wanted === status.value);
    try {
      const all = [];
      let after;
      do {
        const got = await api[asked]({ status: wanted, after, limit: PAGE }, signal);
        all.push(...got[asked]);
        after = got.next;
      } while (after && all.length < most);
      if (!same()) return;
      records = all;
      more = Boolean(after);
      put(note, records.length ? null : t(asked === "jobs" ? "bench.noJobs" : "bench.noNodes"));
      drawList();
    } catch (err) {
      if (err.name !== "AbortError" && same()) put(note, refusalText(err));
    }
  }

  function drawList() {
    const wanted = filter.value.trim().toLowerCase();
    const texts = (one) => (kind === "jobs" ? [one.id, one.name, one.status, one.owner.name] : [one.id, one.state, one.job, one.info.config.role, labelsOf(one), one.info.property.host]);
    list.set(records.filter((one) => !wanted || texts(one).some((text) => text?.toLowerCase().includes(wanted))));
    list.select((one) => one.id === id);
    put(count, t(kind === "jobs" ? "bench.someJobs" : "bench.someNodes", { n: records.length }), more ? " …" : null);
  }

  const jobRow = (job) => h("div", { class: "record-row", title: isolated(job.id) }, h("span", { class: "tree-name" }, h("b", null, nameOf(job.name || job.id)), h("small", { class: "mono" }, nameOf(job.id))),
    h("span", { class: "meta" }, moment(job.createTime)), badge(job.status));

  const nodeRow = (node) => h("div", { class: "record-row", title: isolated(node.id) }, h("span", { class: "tree-name" }, h("b", { class: "mono" }, nameOf(node.id)), h("small", null, plain(node.info.config.role ?? ""), " ", nameOf(labelsOf(node)))),
    node.job ? h("span", { class: "meta mono job" }, nameOf(node.job)) : null, stateOf(node));

  const stateOf = (node) => (node.lost ? h("span", { class: "badge broken" }, t("bench.lost")) : badge(node.state));

  // ---- one job or node

  async function readOne(signal) {
    const asked = id, of = kind;
    if (!asked) return;
    const same = () => asked === id && of === kind;
    try {
      const [one, { entries }] = await Promise.all([of === "jobs" ? api.job(asked, signal) : api.node(asked, signal), api.history(of, asked, signal)]);
      if (same()) drawOne(...(of === "jobs" ? jobParts(one) : nodeParts(one)), history(entries));
    } catch (err) {
      if (err.name !== "AbortError" && same()) drawOne([nameOf(asked)], null, null, h("p", { class: "note" }, refusalText(err)));
    }
  }

  function drawOne(title, actions, facts, ...rest) {
    putScrolled(detail,
      h("div", { class: "detail-head" }, button(t("back"), () => go(kind), { icon: "back", bare: true, id: "back-records" }),
        h("div", { class: "titles" }, h("h2", { id: "record-name" }, title), kind === "jobs" ? h("p", { class: "meta mono" }, nameOf(id)) : null), h("div", { class: "actions" }, actions)),
      h("div", { class: "entry-scroll", tabindex: "0" }, facts, rest));
  }

  const factsOf = (facts) => h("dl", { class: "facts" }, facts.map(([name, value]) => value ? h("div", null, h("dt", null, t(`bench.${name}`)), h("dd", null, value)) : null));

  function jobParts(job) {
    const { name = "", owner } = job.spec;
    return [[nameOf(name || job.id), badge(job.status)],
      ended(job) ? null : button(t("bench.abort"), () => abort(job.id, name || job.id), { kind: "danger", id: "abort-job" }),
      [factsOf([["owner", nameOf(owner.name || owner.id || "–")], ["created", moment(job.createTime)], ["started", moment(job.startTime)], ["stopped", moment(job.stopTime)],
        ["attempts", job.attempts && String(job.attempts)], ["holder", job.holder && nameOf(job.holder)], ["error", job.error && nameOf(job.error)]]),
      job.nodes.length ? [h("h3", { class: "section-title" }, t("bench.nodes")),
        table("job-nodes", ["name", "node", "role", "why"].map((column) => t(`bench.${column}`)), job.nodes.map((node) => [nameOf(node.name), nodeLink(node.id), plain(node.role), plain(node.why)]))] : null,
      job.pipelines.map((pipeline, i) => [h("h3", { class: "section-title" }, t("bench.pipeline", { index: i + 1 }), " ", nameOf(job.spec.pipelines[i]?.name ?? ""), " ", badge(pipeline.status)),
        pipeline.stages.map((index) => stageOf(job.stages[index]))])]];
  }

  // stageOf is a stage with a row for each task on each node, or, before it has nodes, for
  // each task.
  function stageOf({ index, spec, startTime, stopTime, nodes = [] }) {
    const named = (task, i) => nameOf(task.name || `${i}`);
    const rows = nodes.length ? nodes.flatMap((node) => node.tasks.map((task, i) => [named(spec.tasks[i], i), nodeLink(node.id), badge(task.status), moment(task.startTime), moment(task.stopTime), nameOf(task.error ?? "")]))
      : spec.tasks.map((task, i) => [named(task, i), "", "", "", "", ""]);
    return h("div", { class: "stage", data: { stage: spec.name } },
      h("p", { class: "note" }, h("b", null, nameOf(spec.name)), spec.background ? h("span", { class: "badge" }, t("bench.background")) : null, startTime ? [" · ", moment(startTime), " – ", stopTime ? moment(stopTime) : null] : null),
      table(`stage-${index}`, ["task", "node", "status", "started", "stopped", "error"].map((column) => t(`bench.${column}`)), rows));
  }

  function nodeParts(node) {
    const { addr, config, capacity, property } = node.info;
    const size = (total, free) => total && `${bytes(total * MIB)} · ${t("status.free", { size: bytes((free ?? 0) * MIB) })}`;
    return [[nameOf(node.id), stateOf(node)], null, factsOf([["role", plain(config.role ?? "") || "–"], ["labels", nameOf(labelsOf(node) || "–")], ["job", node.job ? jobLink(node.job) : "–"],
      ["beat", moment(node.status.heartbeatTime)], ["address", nameOf(addr.remoteAddr || addr.ip || "–")], ["host", property.host && nameOf(property.host)],
      ["cores", capacity.cores && number(capacity.cores)], ["memory", size(capacity.memoryTotal, capacity.memoryFree)], ["disk", size(capacity.diskTotal, capacity.diskFree)]])];
  }

  async function abort(job, name) {
    const done = await confirm({ title: t("bench.abortTitle", { name }), text: t("bench.abortAsk"), action: t("bench.abort"), submit: () => api.abort(job) });
    if (!done) return;
    say(t("bench.aborted", { name }));
    following.now();
  }

  function drawTabs() {
    put(tabs, KINDS.map((one) => h("a", { class: "tab", id: `tab-${one}`, href: link(one), "aria-current": one === kind ? "page" : null }, t(`bench.${one}`))));
    status.hidden = kind !== "jobs";
  }

  const onNarrow = () => list.refresh();
  narrow.addEventListener("change", onNarrow);
  drawTabs();
  return {
    show(of, one = "") {
      const to = KINDS.includes(of) ? of : "jobs";
      id = one;
      detail.hidden = !id;
      empty.hidden = Boolean(id);
      split.dataset.pane = id ? "detail" : "list";
      if (id) put(detail);
      if (to !== kind) {
        kind = to;
        put(note);
        drawTabs();
        restart();
      } else {
        drawList();
        following?.now();
      }
      following ??= follow("@bench", read, live, concerns);
    },
    close() {
      following?.close();
      narrow.removeEventListener("change", onNarrow);
      list.close();
    },
  };
}
