// The id of a race: short, with a button that copies all of it.
import { html, useState } from "./html.js";

/** @param {string} text */
async function copied(text) {
  // Without TLS a browser has no clipboard for pages of other machines.
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

/** @param {{ id: string, href?: string }} props */
export function Id({ id, href }) {
  const [done, setDone] = useState(false);
  const copy = () => void copied(id).then(() => {
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  }, () => undefined);
  const short = id.length > 12 ? `…${id.slice(-8)}` : id;
  return html`<span class="id">${href ? html`<a class="mono" href=${href} title=${id}>${short}</a>` : html`<span class="mono" title=${id}>${short}</span>`}<button type="button" class="bare" onClick=${copy}>${done ? "✓ copied" : "copy"}<span class="hidden"> the id ${id}</span></button></span>`;
}
