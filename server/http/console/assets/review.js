// What is shown before something is written: what comes of it, and whom it concerns; and what to
// do when somebody else has written meanwhile.

import { past as api } from "./api.js";
import { dialog, refusalText } from "./dialogs.js";
import { h, icon, put } from "./dom.js";
import { few } from "./few.js";
import { t } from "./i18n.js";
import { format, read } from "./json.js";
import { createLines, diffView, differing } from "./lines.js";
import { conflicts, joined, merge3 } from "./merge.js";
import { name as nameOf } from "./names.js";
import { byline, commentField } from "./past.js";

// review shows what would come of a text that is to be saved, and asks why. It resolves with the
// comment, or null if it is not to be.
// conflict tells whether somebody else has written meanwhile, and follow is given what to call when
// that may have changed.
export async function review({ name, before, after, comment = "", conflict, follow }) {
  const gone = new AbortController();
  const why = commentField("review-comment");
  why.value = comment;
  why.autofocus = true;
  const uses = h("div", { id: "review-uses", role: "status" }, t("loading"));
  const said = h("p", { class: "note", id: "review-said" });
  const clash = h("div", { class: "banner warn", id: "review-conflict", role: "alert" }, icon("warn"), h("span", null, t("review.conflict", { name })));
  const warn = () => (clash.hidden = !conflict());
  warn();
  follow(warn);
  const by = byline();
  const how = h("select", { id: "review-how", "aria-label": t("past.how") }, ["text", "paths", "resolved"].map((value) => h("option", { value }, t(`review.${value}`))));
  const list = createLines({ label: t("past.answer"), id: "review-lines" });
  let preview = null; // what the server says; an error if it does not

  const draw = () => {
    put(said);
    if (how.value === "text") return list.set(differing(before, after));
    if (!preview || preview instanceof Error || preview.refused) return list.set([]);
    if (how.value === "paths") {
      put(said, preview.more ? t("blame.part") : preview.paths.length ? null : t("diff.none"));
      return list.set(preview.paths);
    }
    const whole = preview.text.length < preview.length ? null : read(preview.text).root;
    put(said, whole || preview.text.length >= preview.length ? null : t("review.part"));
    list.set((whole ? format(preview.text, whole) : preview.text).split("\n").map((text) => ({ text })));
  };
  const ask = async () => {
    try {
      preview = await api.preview(name, after, gone.signal);
    } catch (err) {
      preview = err;
    }
    if (gone.signal.aborted) return;
    put(uses, concerns(preview));
    draw();
  };
  how.addEventListener("change", draw);
  draw();
  ask();
  const go = await dialog({
    title: t("review.title", { name }), id: "review", wide: true,
    body: [clash, uses, by.field, h("label", { class: "field" }, h("span", null, t("comment.why")), why), h("div", null, how), said, list.el],
    actions: [{ label: t("cancel"), value: null, id: "review-no" }, { label: t("save"), value: true, main: true, id: "review-save" }],
  });
  gone.abort();
  follow(null);
  list.close();
  if (go) by.keep();
  return go ? why.value.trim() : null;
}

// concerns says whom a change concerns.
function concerns(preview) {
  if (preview instanceof Error) return h("p", { class: "fault" }, refusalText(preview));
  if (preview.refused) return h("p", { class: "fault" }, nameOf(preview.refused));
  return [
    h("p", null, h("b", { id: "review-files" }, t("review.files", { n: preview.heirs })), preview.files.length ? [" ", few(preview.files)] : null),
    h("p", null, h("b", { id: "review-programs" }, t("review.programs", { n: preview.told })), preview.programs.length ? [" ", few(preview.programs.map((program) => program.name || program.address))] : null),
  ];
}

const SHOWN = 100; // conflicts that are asked about; of others both sides stay

// settle asks what to do with a text when somebody else has written since base. It resolves with
// "take", "overwrite", "edit", null or {merged: the text}. theirs is null if there is none any more.
export async function settle({ name, base, theirs, mine }) {
  const parts = theirs === null || base === undefined ? null : merge3(base, theirs, mine);
  const places = parts ? conflicts(parts) : [];
  const choices = places.map(() => undefined); // nothing stays, or goes, unless somebody says so
  for (let i = SHOWN; i < places.length; i++) choices[i] = "both";
  const clear = parts?.filter((part) => part.by).length ?? 0;
  const choice = await dialog({
    title: t("conflict.title"), id: "conflict", wide: true,
    body: [h("p", null, t(theirs === null ? "conflict.deleted" : "conflict.text", { name })),
      parts ? h("p", { id: "conflict-parts" }, clear ? [t("conflict.clear", { n: clear }), " "] : null, places.length ? h("b", null, t("conflict.both", { n: places.length })) : t("conflict.none")) : null,
      places.slice(0, SHOWN).map((part, i) => side(part, i, choices)),
      diffView(theirs ?? "", mine, t("conflict.theirs"), t("conflict.mine"))],
    actions: [
      { label: t("conflict.take"), value: "take", id: "conflict-take" },
      { label: t("conflict.overwrite"), value: "overwrite", kind: "danger", id: "conflict-overwrite" },
      { label: t("conflict.edit"), value: "edit", id: "conflict-edit", main: !parts, kind: parts ? "" : "primary" },
      parts ? { label: t("conflict.merge"), value: "merge", id: "conflict-merge", main: true, submit: () => {
        const open = choices.findIndex((one) => !one);
        if (open < 0) return "merge";
        document.querySelector(`#conflict-${open} input`).focus();
        throw new Error(t("conflict.choose", { n: open + 1 }));
      } } : null,
    ].filter(Boolean),
  });
  return choice === "merge" ? { merged: joined(parts, choices) } : choice;
}

// side asks for a conflict whose lines are to stay.
function side(part, i, choices) {
  const lines = (kind, text) => h("pre", { class: `mono diff-${kind}` }, text.length ? text.slice(0, 40).map((line) => [nameOf(line.slice(0, 400)), "\n"]) : t("conflict.nothing"));
  return h("fieldset", { class: "conflict-place", id: `conflict-${i}` }, h("legend", null, t("conflict.place", { n: i + 1 })), lines("left", part.theirs), lines("right", part.mine),
    h("div", { class: "choices" }, ["theirs", "mine", "both"].map((value) => h("label", { class: "choice" },
      h("input", { type: "radio", name: `conflict-${i}`, value, on: { change: () => (choices[i] = value) } }), t(`keep.${value}`)))));
}
