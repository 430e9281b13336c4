// The pages in their groups. The gateway knows their names in this order: crates/serve/src/dashboard/mod.rs.
import { Benchmarks } from "./pages/benchmarks.js";
import { Costs } from "./pages/costs.js";
import { Incidents } from "./pages/incidents.js";
import { Keys } from "./pages/keys.js";
import { Leaderboard } from "./pages/leaderboard.js";
import { Load } from "./pages/load.js";
import { Live } from "./pages/live.js";
import { Me } from "./pages/me.js";
import { Models } from "./pages/models.js";
import { Overview } from "./pages/overview.js";
import { OverTime } from "./pages/time.js";
import { Playground } from "./pages/playground.js";
import { Races } from "./pages/races.js";
import { Routing } from "./pages/routing.js";
import { Status } from "./pages/status.js";
import { WhatIf } from "./pages/whatif.js";

/** @typedef {{ name: string, title: string, Page: (props: { rest: string }) => any, roles?: string[] }} Page `roles`: who sees it; admins and viewers unless set */
const EVERYBODY = ["admin", "viewer", "lead", "user"];
/** @type {{ title: string, icon: string, pages: Page[] }[]} `icon`: a path in a square of 16 */
const GROUPS = [
  {
    title: "Now", icon: "M1 8h3l2-5 4 10 2-5h3", pages: [
      { name: "overview", title: "Overview", Page: Overview },
      { name: "live", title: "Live", Page: Live },
      { name: "races", title: "Races", Page: Races, roles: EVERYBODY },
    ],
  },
  {
    title: "Speed", icon: "M2 12a6.5 6.5 0 1 1 12 0M8 11l3-5", pages: [
      { name: "leaderboard", title: "Leaderboard", Page: Leaderboard },
      { name: "time", title: "Over time", Page: OverTime },
      { name: "load", title: "Load", Page: Load },
      { name: "incidents", title: "Incidents", Page: Incidents },
      { name: "benchmarks", title: "Benchmarks", Page: Benchmarks },
    ],
  },
  {
    title: "Money", icon: "M8 1.5v13M11 4.5c-1-1.5-6-1.5-6 1s6 2 6 4.500s-5 2.500-6 1", pages: [
      { name: "costs", title: "Costs", Page: Costs, roles: EVERYBODY },
      { name: "whatif", title: "What if", Page: WhatIf },
    ],
  },
  {
    title: "Set-up", icon: "M2 4h6M12 4h2M10 2v4M2 12h2M8 12h6M6 10v4", pages: [
      { name: "keys", title: "Keys", Page: Keys, roles: ["admin", "viewer", "lead"] },
      { name: "models", title: "Models", Page: Models },
      { name: "routing", title: "Routing", Page: Routing },
      { name: "status", title: "Status", Page: Status },
      { name: "playground", title: "Playground", Page: Playground },
    ],
  },
  { title: "Me", icon: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6M2 14.500c0-6 12-6 12 0", pages: [{ name: "me", title: "Me", Page: Me, roles: EVERYBODY }] },
];

/** The groups that somebody sees, and their pages. @param {import("./lib/session.js").Session} session */
export function groupsFor(session) {
  const sees = (/** @type {Page} */ page) => (page.roles ?? ["admin", "viewer"]).includes(session.role) && (page.Page !== Me || session.user !== null);
  return GROUPS.map((group) => ({ ...group, pages: group.pages.filter(sees) })).filter((group) => group.pages.length > 0);
}
