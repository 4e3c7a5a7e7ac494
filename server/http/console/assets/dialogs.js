// What asks and what tells: dialogs of the browser's own kind, which keep the
// keyboard inside and close by Escape, and short messages.

import { button, h, put } from "./dom.js";
import { has, t } from "./i18n.js";
import { shown } from "./names.js";
import { problemText } from "./problems.js";

// refusalText is an error in words: what it means, and the server's detail.
export function refusalText(err) {
  const name = `error.${err.reason}`;
  if (err.reason === "forbidden") return problemText(shown(err.message));
  if (err.reason && has(name)) return err.message && err.message !== err.reason ? `${t(name)} (${shown(err.message)})` : t(name);
  return err.reason === undefined ? err.message : shown(err.message);
}

const messages = h("div", { class: "toasts", role: "status", "aria-live": "polite" });

// say shows a message for a few seconds; a fault stays until it is closed.
export function say(text, kind = "good") {
  if (!messages.isConnected) document.body.append(messages);
  const close = () => el.remove();
  const el = h("div", { class: `toast ${kind}` }, h("span", null, text),
    h("button", { type: "button", class: "btn bare", "aria-label": t("close"), on: { click: close } }, "×"));
  messages.append(el);
  while (messages.children.length > 4) messages.firstChild.remove();
  if (kind !== "bad") setTimeout(close, 4000);
  else setTimeout(close, 15_000);
}

export function sayRefusal(err) {
  if (err.name !== "AbortError") say(refusalText(err), "bad");
}

// A dialog is a place in the browser's history, so that Back closes it.
let opened = 0;

// dialog shows one and resolves with the value of the button that closed it, or
// null. actions: [{label, value, kind, submit}]; submit may refuse by returning
// false, and may be a promise.
export function dialog({ title, body, actions, wide = false, id }) {
  return new Promise((done) => {
    const place = `${performance.timeOrigin}-${++opened}`;
    const fault = h("p", { class: "fault", role: "alert" });
    let result = null;
    const act = async (action) => {
      put(fault);
      if (action.submit) {
        try {
          for (const b of el.querySelectorAll(".dialog-actions button")) b.disabled = true;
          const answer = await action.submit();
          if (answer === false) return;
          result = answer ?? action.value;
        } catch (err) {
          put(fault, refusalText(err));
          return;
        } finally {
          for (const b of el.querySelectorAll(".dialog-actions button")) b.disabled = false;
        }
      } else result = action.value ?? null;
      el.close();
    };
    const main = actions.find((a) => a.main) ?? actions.at(-1);
    const form = h("form", { method: "dialog", on: {
      submit: (event) => {
        event.preventDefault();
        act(main);
      },
    } }, h("h2", { id: `${place}-title` }, title), h("div", { class: "dialog-body" }, body), fault, h("div", { class: "dialog-actions" }, actions.map((a) =>
      (a === main ? h("button", { type: "submit", class: `btn ${a.kind ?? "primary"}`, id: a.id }, a.label)
        : button(a.label, () => act(a), { kind: a.kind, id: a.id })))));
    const end = () => {
      removeEventListener("popstate", left);
      el.remove();
      done(result);
    };
    const left = () => {
      if (history.state?.dialog === place) return; // it is one above that was left
      if (el.open) el.close();
      else end();
    };
    const el = h("dialog", { class: wide ? "wide" : null, id, "aria-labelledby": `${place}-title`, on: {
      close: () => {
        el.hidden = true;
        if (history.state?.dialog === place) history.back(); // and what follows waits for it
        else end();
      },
    } }, form);
    history.pushState({ dialog: place }, "");
    addEventListener("popstate", left);
    document.body.append(el);
    el.showModal();
    el.querySelector("[autofocus]")?.focus();
  });
}

// confirm asks before something is lost. If word is given it has to be typed; more
// stands below the question.
export function confirm({ title, text, more, action, word, submit }) {
  const input = word ? h("input", { type: "text", class: "mono", id: "confirm-word", autocomplete: "off", autofocus: true, "aria-label": t("confirm.type", { word }) }) : null;
  return dialog({
    title, id: "confirm",
    body: [h("p", null, text), more, word ? h("label", { class: "field" }, h("span", null, t("confirm.type", { word })), input) : null],
    actions: [
      { label: t("cancel"), value: null, id: "confirm-no" },
      { label: action, value: true, kind: "danger", id: "confirm-yes", main: true, submit: async () => {
        if (word && input.value !== word && input.value !== shown(word)) {
          input.focus();
          return false;
        }
        await submit?.();
        return true;
      } },
    ],
  });
}
