// The frame: the session, the list of pages, and the page of the address.
import { html, render, useCallback, useEffect, useErrorBoundary, useState } from "./lib/html.js";
import { follow, here, link, useAddress } from "./lib/address.js";
import { AHEAD, ApiError, LOGGED_OUT, send, useAnswer } from "./lib/api.js";
import { learn } from "./lib/names.js";
import { begin, seesFigures, useConfig } from "./lib/session.js";
import { groupsFor } from "./pages.js";

// Its address is relative to the page, and the page's own address changes without a load.
const icon = /** @type {HTMLLinkElement | null} */ (document.querySelector("link[rel=icon]"));
if (icon) icon.href = new URL("icon.svg", import.meta.url).href;

/** @typedef {import("./lib/session.js").Session} Session */

function App() {
  const [session, setSession] = useState(/** @type {Session | "none" | "gone" | "forbidden" | undefined} */ (undefined));
  const look = useCallback(async () => {
    try {
      const known = await (await send("/dashboard/session")).json();
      begin(known);
      setSession(known);
    } catch (error) {
      const status = error instanceof ApiError ? error.status : 0;
      setSession(status === 401 ? "none" : status === 403 ? "forbidden" : "gone");
    }
  }, []);
  useEffect(() => {
    const ended = () => setSession("none");
    addEventListener(LOGGED_OUT, ended);
    document.addEventListener("click", follow);
    void look();
    return () => {
      removeEventListener(LOGGED_OUT, ended);
      document.removeEventListener("click", follow);
    };
  }, []);
  useEffect(() => {
    if (session !== "gone") return;
    const timer = setInterval(look, 2000);
    return () => clearInterval(timer);
  }, [session]);
  if (session === undefined) return html`<main id="main"><p class="note" role="status">Asking the gateway …</p></main>`;
  if (session === "gone") {
    return html`<main id="main"><h1>Photofinish</h1><p class="note warn" role="alert">The gateway does not answer. Trying again every two seconds.</p></main>`;
  }
  if (session === "forbidden") {
    return html`<main id="main"><h1>Photofinish</h1><p class="note bad" role="alert">The role of this user has no pages: change <code>role</code> under <code>[users.NAME]</code>.</p></main>`;
  }
  return session === "none" ? html`<${Login} done=${look} />` : html`<${Frame} session=${session} left=${() => setSession("none")} />`;
}

/** @param {{ done: () => Promise<void> }} props */
function Login({ done }) {
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  /** @type {import("./lib/api.js").Asked<{ issuer: string | null }>} */
  const offer = useAnswer("/api/login");
  const issuer = offer.data?.issuer;
  useEffect(() => {
    document.title = "Log in · Photofinish";
  }, []);
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.currentTarget);
    const field = /** @type {HTMLInputElement} */ (form.elements.namedItem("token"));
    setBusy(true);
    setProblem("");
    try {
      await send("/dashboard/session", { method: "POST", headers: { authorization: `Bearer ${field.value.trim()}` } });
      field.value = "";
      await done();
    } catch (error) {
      const known = error instanceof ApiError ? error : new ApiError(400, "", "A token has only letters, digits and signs of ASCII.");
      const wait = known.wait ? ` Wait ${known.wait} s.` : "";
      setProblem(known.status === 401 ? "The gateway does not know this token." : `${known.message}.${wait}`);
      setBusy(false);
      field.select();
    }
  };
  return html`<main id="main" class="login">
    <h1>Photofinish</h1>
    ${issuer && html`<p><button class="main" type="button" onClick=${() => location.assign(here("/dashboard/login"))}>Log in at ${new URL(issuer).host}</button></p>`}
    <p>${issuer ? "Or your token or key." : "Your token or key."} It is sent once and not kept: a session of 12 hours takes its place.</p>
    <form method="post" action=${here("/dashboard/session")} onSubmit=${submit}>
      <label>Token<input name="token" type="password" autocomplete="current-password" required autofocus
        aria-invalid=${problem ? "true" : undefined} aria-describedby="problem" /></label>
      <button class="main" type="submit" disabled=${busy}>${busy ? "Logging in …" : "Log in"}</button>
      <p id="problem" class="bad" role="alert">${problem}</p>
    </form>
  </main>`;
}

/** A page that breaks says so: what stood there before might be old. @param {{ children?: any }} props */
function Boundary({ children }) {
  const [problem] = useErrorBoundary();
  return problem ? html`<h1>This page broke</h1><p class="note bad" role="alert">It is a fault of the dashboard: ${String(problem)}. The figures are under <code>/api</code>. <a href=${location.href} target="_self">Load it again</a>.</p>` : children;
}

/** @param {{ session: Session, left: () => void }} props */
function Frame({ session, left }) {
  const { page, rest } = useAddress();
  const config = useConfig(60);
  const groups = groupsFor(session);
  const pages = groups.flatMap((group) => group.pages);
  const first = pages.find((known) => known.name === "overview") ?? pages[pages.length - 1];
  const at = pages.find((known) => known.name === (page || first.name));
  const group = groups.find((one) => at && one.pages.includes(at));
  useEffect(() => {
    document.title = `${rest && at?.title ? `${at.title} ${rest.slice(-8)}` : (at?.title ?? "No such page")} · Photofinish`;
  }, [at, rest]);
  const [ahead, setAhead] = useState("");
  useEffect(() => {
    const said = (/** @type {Event} */ event) => setAhead(/** @type {CustomEvent<string>} */ (event).detail);
    addEventListener(AHEAD, said);
    return () => removeEventListener(AHEAD, said);
  }, []);
  const logOut = async () => {
    await send("/dashboard/session", { method: "DELETE" }).catch(() => undefined);
    left();
  };
  if (config.data) learn(config.data);
  // Colours come from the configuration, so a page waits for it, or for the news that there is none.
  const known = config.data || config.error || !seesFigures();
  return html`<a class="skip" href="#main">To the content</a>
    <header class="top">
      <a class="brand" href=${link(first.name)}>Photofinish</a>
      <nav class="groups" aria-label="Groups"><ul>${groups.map((one) => html`<li key=${one.title}><a href=${link(one.pages[0].name)} aria-current=${one === group ? "true" : undefined}>
        <svg viewBox="0 0 16 16" aria-hidden="true"><path d=${one.icon} /></svg>${one.title}</a></li>`)}</ul></nav>
      ${group && html`<nav class="pages" aria-label="Pages"><ul>${group.pages.map((one) => html`<li key=${one.name}><a href=${link(one.name)} aria-current=${one === at ? "page" : undefined}>${one.title}</a></li>`)}</ul></nav>`}
    </header>
    <main id="main" tabindex="-1">${ahead && html`<p class="note warn" role="status">Attempts dated after now, up to ${ahead}, are in no figure: a clock was ahead.</p>`}${!at ? html`<h1>No such page</h1>` : known ? html`<${Boundary} key=${at.name}><${at.Page} rest=${rest} /><//>` : html`<p class="note" role="status">Reading …</p>`}</main>
    <footer>Photofinish ${session.version}${session.user !== null && html`<span>${session.user}</span><button type="button" onClick=${logOut}>Log out</button>`}</footer>`;
}

const root = document.getElementById("app");
if (root) render(html`<${App} />`, root);
