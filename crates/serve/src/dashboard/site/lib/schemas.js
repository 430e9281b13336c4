// What the API's own document says of values and members, so that no page says it again: read once.
import { html, useEffect, useState } from "./html.js";
import { send } from "./api.js";

/** @typedef {{ description?: string, "x-unit"?: string, properties?: Record<string, Schema>, anyOf?: { const: string, description: string }[] }} Schema */
/** @type {Record<string, Schema>} */
let known = {};
/** @type {Promise<void> | undefined} */
let reading;

/** The schemas by name; none until they are read. @returns {Record<string, Schema>} */
export function useSchemas() {
  const [schemas, set] = useState(known);
  const [turn, again] = useState(0);
  useEffect(() => {
    reading ??= send("/api/openapi.json").then((answer) => answer.json()).then((document) => {
      known = document.components.schemas;
    });
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    reading.then(() => set(known), () => {
      reading = undefined;
      timer = setTimeout(() => again((turn) => turn + 1), 5000);
    });
    return () => clearTimeout(timer);
  }, [turn]);
  return schemas;
}

/** The names that a value may have, each with what it says. @param {Record<string, Schema>} schemas @param {string} of @returns {[string, string][]} */
export function namesOf(schemas, of) {
  return (schemas[of]?.anyOf ?? []).map((one) => [one.const, one.description]);
}

/** An answer that can be shown: once the schema of its members is read, which has their units.
 * @template T @param {import("./api.js").Asked<T>} asked @param {Schema | undefined} schema @returns {import("./api.js").Asked<T>} */
export function withSchema(asked, schema) {
  return schema ? asked : { ...asked, data: undefined };
}

/** What a name says, in a sentence that goes on. @param {Record<string, Schema>} schemas @param {string} of @param {string} name */
export function meaning(schemas, of, name) {
  const said = namesOf(schemas, of).find(([known]) => known === name)?.[1];
  if (!said) return name;
  return `${said[0].toLowerCase()}${said.slice(1)}`.replace(/\.$/, "");
}

/** A text with its `code`. @param {string} text */
export function marked(text) {
  return text.split("`").map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : part));
}

/** What a member is, for a title. @param {Schema | undefined} schema @param {string} member */
export function explained(schema, member) {
  return schema?.properties?.[member]?.description?.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("`", "");
}

/** The unit of a member. @param {Schema | undefined} schema @param {string} member */
export function unitOf(schema, member) {
  return schema?.properties?.[member]?.["x-unit"] ?? "";
}
