// What the pages use of preact. Templates are not checked, so a component may be anything.
export function h(type: unknown, props: object | null, ...children: unknown[]): unknown;
export function render(what: unknown, into: Element): void;
