// What the pages of the flow and of the bench share: records that are read again when
// the store tells of a change, and how their statuses, times and histories look.

import { listen } from "./api.js";
import { h } from "./dom.js";
import { dateTime, t, time } from "./i18n.js";
import { name as nameOf } from "./names.js";
import { table as tableOf } from "./tables.js";

const PAUSE = 300; // ms between the end of a reading and the next one, at least

// follow reads now, and again after any change of a namespace; never twice at once, and
// with pauses at least as long as the reading took. concerns says of which keys changes count.
// now reads without such a pause.
export function follow(ns, read, live, concerns = () => true) {
  const gone = new AbortController();
  let timer = 0, busy = false, due = false, hurry = false;
  const again = () => {
    due = true;
    if (!busy && !timer) run();
  };
  const now = () => {
    hurry = busy;
    clearTimeout(timer);
    timer = 0;
    again();
  };
  async function run() {
    busy = true;
    due = false;
    const begin = performance.now();
    await read(gone.signal);
    busy = false;
    if (gone.signal.aborted) return;
    timer = setTimeout(() => {
      timer = 0;
      if (due) run();
    }, hurry ? 0 : Math.max(PAUSE, performance.now() - begin));
    hurry = false;
  }
  const heard = (event) => concerns(JSON.parse(event.data).key) && again();
  const unlisten = listen("store/stream", { ns }, { put: heard, delete: heard, expire: heard, resync: again }, { state: live, fresh: again });
  again();
  return {
    now,
    close() {
      gone.abort();
      clearTimeout(timer);
      unlisten();
    },
  };
}

// What a status says of its record: under way, about to be, or ended badly.
const KINDS = {
  WORKING: "good", RUNNING: "good", RUNNING_JOB: "good", BACKGROUND: "good", IDLE: "good",
  PENDDING: "new", STARTING: "new", STOPING: "new", QUEUED: "new", ABORTED: "broken", LOST: "broken", ERROR: "broken",
};

// plain is a status without the name of its enumeration.
export const plain = (status) => status.replace(/^(NODE_JOB|NODE|JOB|STAGE_PIPELINE|TASK_PIPELINE|TASK)_/, "");

export function badge(status) {
  const text = plain(status ?? "");
  return text ? h("span", { class: `badge ${KINDS[text] ?? ""}` }, text) : null;
}

// moment is a time that is given in ns.
export function moment(ns) {
  return ns > 0 ? h("time", { title: dateTime(ns / 1e6) }, new Date(ns / 1e6).toDateString() === new Date().toDateString() ? time(ns / 1e6) : dateTime(ns / 1e6)) : "–";
}

// table has a row of cells for each record, below heads; none stands for an empty one.
export function table(id, heads, rows, none) {
  if (!rows.length) return none ? h("p", { class: "note" }, none) : null;
  return tableOf(heads, rows, { id });
}

// history is what happened to a node or a job, the last first.
export function history(entries) {
  return [h("h3", { class: "section-title" }, t("history.title")), table("record-history", ["when", "event", "change", "who"].map((name) => t(`record.${name}`)),
    entries.toReversed().map((one) => [moment(one.time), [one.event, one.note ? ` · ${one.note}` : ""],
      [change(one), (one.parts ?? []).map((part) => h("div", { class: "meta" }, `${part.of}: `, change(part))), one.more ? h("div", { class: "meta" }, t("names.more", { n: one.more })) : null], nameOf(one.actor ?? "")]))];
}

const change = (one) => (one.old === one.new ? plain(one.new) : `${plain(one.old) || "–"} → ${plain(one.new)}`);
