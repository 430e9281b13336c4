// TypeScript declarations of the API, from its OpenAPI document: each schema as an interface of the namespace `Api`, and `Answers`
// with the JSON of each GET by its path.

/** @param {any} document */
export function declarations(document) {
  const schemas = Object.entries(document.components.schemas).map(([name, schema]) => `  type ${name} = ${type(schema)};`);
  const answers = Object.entries(document.paths).flatMap(([path, operations]) => {
    const schema = operations.get?.responses["200"]?.content?.["application/json"]?.schema;
    return schema ? [`    ${JSON.stringify(path)}: ${type(schema)};`] : [];
  });
  return `declare namespace Api {\n${schemas.join("\n")}\n  interface Answers {\n${answers.join("\n")}\n  }\n}\n`;
}

/** @param {any} schema @returns {string} */
function type(schema) {
  if (schema === true || schema === undefined) return "unknown";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((/** @type {unknown} */ value) => JSON.stringify(value)).join(" | ");
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return `(${choices.map(type).join(" | ")})`;
  if (Array.isArray(schema.type)) return `(${schema.type.map((/** @type {string} */ one) => type({ ...schema, type: one })).join(" | ")})`;
  switch (schema.type) {
    case "integer":
    case "number":
      return "number";
    case "string":
      return "string";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array":
      return `Array<${type(schema.items)}>`;
    case "object":
      return object(schema);
    default:
      return "unknown";
  }
}

/** @param {any} schema */
function object(schema) {
  const required = new Set(schema.required ?? []);
  const members = Object.entries(schema.properties ?? {}).map(([name, member]) => `${JSON.stringify(name)}${required.has(name) ? "" : "?"}: ${type(member)};`);
  if (schema.additionalProperties && schema.additionalProperties !== true) members.push(`[name: string]: ${type(schema.additionalProperties)};`);
  return members.length ? `{ ${members.join(" ")} }` : "any";
}
