// The pages, in the order of the list. The gateway knows their names: crates/serve/src/dashboard/mod.rs.
import { Benchmarks } from "./pages/benchmarks.js";
import { Costs } from "./pages/costs.js";
import { Leaderboard } from "./pages/leaderboard.js";
import { Load } from "./pages/load.js";
import { Live } from "./pages/live.js";
import { Models } from "./pages/models.js";
import { OverTime } from "./pages/time.js";
import { Playground } from "./pages/playground.js";
import { Races } from "./pages/races.js";
import { Regressions } from "./pages/regressions.js";
import { Routing } from "./pages/routing.js";
import { Status } from "./pages/status.js";
import { WhatIf } from "./pages/whatif.js";

/** @type {{ name: string, title: string, Page: (props: { rest: string }) => any }[]} */
export const PAGES = [
  { name: "live", title: "Live", Page: Live },
  { name: "leaderboard", title: "Leaderboard", Page: Leaderboard },
  { name: "races", title: "Races", Page: Races },
  { name: "time", title: "Over time", Page: OverTime },
  { name: "load", title: "Load", Page: Load },
  { name: "regressions", title: "Regressions", Page: Regressions },
  { name: "costs", title: "Costs", Page: Costs },
  { name: "whatif", title: "What if", Page: WhatIf },
  { name: "routing", title: "Routing", Page: Routing },
  { name: "models", title: "Models", Page: Models },
  { name: "benchmarks", title: "Benchmarks", Page: Benchmarks },
  { name: "status", title: "Status", Page: Status },
  { name: "playground", title: "Playground", Page: Playground },
];
