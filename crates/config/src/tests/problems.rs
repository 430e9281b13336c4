//! A table of mistakes: each is one problem, at its place, with a way out and without what could be a secret.

use super::bad;

/// The text, and how its only problem begins after `config.toml:`, and what else it says.
pub(super) const PROBLEMS: &[(&str, &str, &str)] = &[
    // names
    ("[race]\nnum_retries = 2", "2:1: unknown key \"num_retries\" in [race]", "did you mean \"retries\"?"),
    ("[race]\nfallbacks = []", "2:1: unknown key \"fallbacks\" in [race]", "tier = 2"),
    ("router_settings = {}", "1:1: unknown key \"router_settings\" in the file", "photofinish import litellm FILE"),
    (
        "[providers.groq-2]\nlike = \"grok\"",
        "2:8: like of [providers.groq-2]: no provider \"grok\"",
        "did you mean \"groq\"?",
    ),
    ("[providers.groq]\nlike = \"openai\"", "2:8: like of [providers.groq]: the catalogue has", "[providers.groq-2]"),
    ("[race]\npolcy = 1", "2:1: unknown key \"polcy\" in [race]", "did you mean \"policy\"?"),
    ("[sever]", "1:2: unknown key \"sever\" in the file", "did you mean \"server\"?"),
    (
        "[server]\nbdy = 1",
        "2:1: unknown key \"bdy\"",
        "expected one of listen, tls, trusted_proxies, body_max, memory, max_in_flight, event_max, drain",
    ),
    ("[server]\ntls = {}", "2:7: tls of [server] has no \"cert\" and no \"key\"", "in PEM form"),
    ("server.listen = []", "1:1: \"listen\" in [server] is an empty list", "127.0.0.1:8080"),
    ("server.listen = [\"127.0.0.1:1\",\"127.0.0.1:1\"]", "1:32: \"listen\" in [server] has 127.0.0.1:1 twice", ""),
    ("server.listen = [\"unix:/a\",\"unix:/a\"]", "1:28: \"listen\" in [server] has unix:/a twice", ""),
    ("server.listen = \"unix:\"", "1:17: bad value \"unix:\" for \"listen\"", "unix:/path"),
    ("server.listen = [\"127.0.0.1:1\",\"0.0.0.0:2\"]", "1:32: \"listen\" in [server] is 0.0.0.0:2, which others", ""),
    ("server.trusted_proxies = [\"10.0.0.0/33\"]", "1:27: bad value \"10.0.0.0/33\"", "10.0.0.0/8"),
    ("server.trusted_proxies = [\"nginx\"]", "1:27: bad value \"nginx\" for \"trusted_proxies\"", "an IP address"),
    (
        "[providers.p]\nbase_url = \"https://a.test\"\nproxy = \"socks5://planted@p:1\"",
        "3:9: \"proxy\" in [providers.p] has the scheme \"socks5\"",
        "\"none\"",
    ),
    (
        "[providers.p]\nbase_url = \"https://a.test\"\nproxy = \"https://p:1\"",
        "3:9: \"proxy\" in [providers.p] has the scheme \"https\"",
        "http://",
    ),
    (
        "[providers.p]\nbase_url = \"https://a.test\"\nproxy = \"http://u:planted@p:x\"",
        "3:9: \"proxy\" in [providers.p] ",
        "http://proxy.example.com:3128",
    ),
    (
        "[providers.p]\nbase_url = \"http://localhost:1\"\nproxy = \"http://p:1\"",
        "3:9: \"proxy\" in [providers.p] has no effect",
        "",
    ),
    ("providers.p = {simulate={},proxy=\"none\"}", "1:11: [providers.p] is simulated and has \"proxy\" too", ""),
    (
        "[providers.groq.request]\nset = { model = \"x\" }",
        "2:9: \"model\" in \"set\" in request of [providers.groq]",
        "another",
    ),
    ("[providers.groq.request]\nset = { stream = true }", "2:9: \"stream\" in", "not changed"),
    ("[providers.groq.request]\ndefault = { messages = [] }", "2:13: \"messages\" in", "what the client asks"),
    ("[providers.groq.request]\ndrop = [\"input\"]", "2:9: \"input\" in", "not changed"),
    ("[providers.groq.request]\nset = { a = nan }", "2:13: \"a\" in", "JSON"),
    ("[providers.groq.request]\nheaders = { authorization = \"planted\" }", "2:13: \"authorization\" in", "credential"),
    ("[providers.groq.request]\nforced_tool = false", "2:1: unknown key \"forced_tool\"", "forced_tools"),
    (
        "[providers.groq.request]\nthinking_levels = [\"huge\"]",
        "2:20: \"thinking_levels\" in request of [providers.groq]: \"huge\" is no effort",
        "minimal",
    ),
    ("[providers.groq.request]\nthinking = \"no\"", "2:12: bad value \"no\"", "effort"),
    ("[providers.groq.request_for.\"a*\"]\ncall_ids = \"ten\"", "2:12: bad value \"ten\"", "nine"),
    ("[race]\nattempts = 2", "2:1: unknown key \"attempts\" in [race]", "one of policy"),
    (
        "[store]\nkeep = \"90d\"",
        "2:1: unknown key \"keep\" in [store]",
        "expected one of url, spill, migrate, outage_allowance, retention",
    ),
    ("[store]\nretention = \"23h\"", "2:13: bad value \"23h\" for \"retention\"", "1d to 365d"),
    ("[store]\nretention = \"ever\"", "2:13: bad value \"ever\" for \"retention\"", "\"forever\""),
    ("[users.a]\ntoken = \"x\"\nrights = true", "3:1: unknown key \"rights\" in [users.a]", "token_sha256"),
    ("[providers.groq]\ndomian = \"x\"", "2:1: unknown key \"domian\"", "did you mean \"domain\"?"),
    ("race.slo = { tfft = \"1s\" }", "1:14: unknown key \"tfft\" in slo of [race]", "did you mean \"ttft\"?"),
    ("race.optimize = \"ttft\"", "1:6: unknown key \"optimize\" in [race]", "did you mean \"optimise\"?"),
    ("[providers.groq]\ncancel_billing = \"never\"", "2:18: bad value \"never\"", "bills_full"),
    ("[race]\ndrains = { times = \"1s\" }", "2:12: unknown key \"times\"", "time"),
    ("[race]\ndrains = { bytes = 3 }", "2:20: bad value 3", "1024"),
    ("race.timeouts.conect = \"1s\"", "1:15: unknown key \"conect\" in timeouts of [race]", "\"connect\"?"),
    ("[providers.Groq]\nbase_url = \"http://h\"", "1:12: bad provider name \"Groq\"", "a-z"),
    ("race.breaker.fails = 1", "1:14: unknown key \"fails\" in breaker of [race]", "failures"),
    (
        "providers.s.simulate = {}\nmodels.a.upstreams = [\"s/x\"]\n[probes]",
        "3:1: [probes] has no \"max_cost\" and no \"max_tokens\"",
        "max_cost = 1.00",
    ),
    (
        "models.a.upstreams = [\"s/x\"]\nproviders.s.simulate = {}\n[probes]\nmax_cost = 1\nevery = \"4m\"",
        "5:9: bad value \"4m\" for \"every\"",
        "5m to 7d",
    ),
    ("probes = { max_cost = 1 }", "1:10: [probes] has no \"models\", and the file has no [models]", "a list of models"),
    (
        "models.a.upstreams = [\"s/x\"]\nproviders.s.simulate = {}\n[probes]\nmax_cost = 1\nworkloads = [\"10\"]",
        "5:14: there is no workload \"10\" for [probes]",
        "did you mean \"10k\"?",
    ),
    (
        "models.lama.upstreams = [\"s/x\"]\nproviders.s.simulate = {}\n[probes]\nmax_tokens = 1\nmodels = [\"llama\"]",
        "5:11: there is no model \"llama\" for [probes]",
        "did you mean \"lama\"?",
    ),
    ("workloads.agent.input_tokens = 9", "1:11: [workloads.agent] has no \"output_tokens\"", "a number of tokens"),
    (
        "workloads.1k = {input_tokens=9,output_tokens=9}",
        "1:11: bad name \"1k\" for a workload",
        "not the name of a built-in one",
    ),
    // types
    ("server = 1", "1:10: \"server\" in the file is an integer", "expected a table"),
    ("[[models]]", "1:1: \"models\" in the file is a list", "expected a table"),
    (
        "limits.rpm = \"60/min\"",
        "1:14: \"rpm\" in [limits] is a string",
        "requests a minute as a whole number, such as rpm = 60",
    ),
    ("limits.budget = 5", "1:17: \"budget\" in [limits] is an integer", "such as { day = 5.0 }"),
    ("models.a = 1", "1:12: \"a\" in [models] is an integer", "expected a table"),
    ("race.policy = true", "1:15: \"policy\" in [race] is a boolean", "expected a string"),
    ("race.max_attempts = 2.5", "1:21: \"max_attempts\" in [race] is a number with a fraction", "an integer"),
    ("race.audit = \"1\"", "1:14: \"audit\" in [race] is a string", "expected a number"),
    ("race.hedge_after = 500", "1:20: \"hedge_after\" in [race] is an integer", "a unit: \"500s\""),
    ("providers.groq.api_key = 1", "1:26: \"api_key\" in [providers.groq] is an integer", "a list of strings"),
    ("providers.groq.api_key = [[1]]", "1:27: \"api_key\" in [providers.groq] is a list", "expected a string"),
    ("providers.a.simulate = 1", "1:24: \"simulate\" in [providers.a] is an integer", "expected a table"),
    (
        "users.a = {token=\"t\",role=\"boss\"}",
        "1:27: bad value \"boss\" for \"role\" in [users.a]",
        "expected one of admin, viewer, metrics, lead, user",
    ),
    ("users.a = {token=\"t\",admin=true}", "1:22: unknown key \"admin\" in [users.a]", "role = \"admin\""),
    ("users.a = {token=\"t\",role=\"lead\"}", "1:7: [users.a] has role = \"lead\" and no team", "team = \"NAME\""),
    (
        "users.a = {token=\"t\",overrides=1}",
        "1:32: \"overrides\" in [users.a] is an integer",
        "expected true, false or a list of names",
    ),
    (
        "users.a = {token=\"t\",overrides=[\"polcy\"]}",
        "1:33: bad value \"polcy\" for \"overrides\" in [users.a]",
        "did you mean \"policy\"?",
    ),
    ("users.a = {token=\"t\",keys=1}", "1:27: \"keys\" in [users.a] is an integer", "expected a table"),
    // values
    ("race.policy = \"rase\"", "1:15: bad value \"rase\" for \"policy\" in [race]", "did you mean \"race\"?"),
    ("race.policy = \"quickest\"", "1:15: bad value \"quickest\"", "one of race, hedge, "),
    ("race.policy = \"adaptve\"", "1:15: bad value \"adaptve\"", "did you mean \"adaptive\"?"),
    ("race.policy = \"fastest\"", "1:15: bad value \"fastest\"", "one of race, hedge, "),
    ("race.policy = \"rule\"", "1:15: bad value \"rule\"", "one of race, hedge, "),
    ("race.hedge_after = \"p95\"", "1:20: bad value \"p95\" for \"hedge_after\" in [race]", "\"250ms\""),
    ("race.hedge_after = \"366d\"", "1:20: bad value \"366d\"", "at most 365d"),
    ("race.optimise = \"tpot\"", "1:17: bad value \"tpot\" for \"optimise\"", "one of auto, ttft, completion, goodput"),
    ("race.optimise = 1", "1:17: \"optimise\" in [race] is an integer", "expected a string"),
    ("race.budget = -0.01", "1:15: bad value -0.01 for \"budget\" in [race]", "expected 0 to 10"),
    ("race.second_worth = -1", "1:21: bad value -1 for \"second_worth\" in [race]", "expected 0.000001 to 1000"),
    ("race.second_worth = 0", "1:21: bad value 0 for \"second_worth\" in [race]", "expected 0.000001 to 1000"),
    ("race.second_worth = nan", "1:21: bad value nan for \"second_worth\" in [race]", "expected 0.000001 to 1000"),
    ("race.second_worth = 1e9", "1:21: bad value 1e9 for \"second_worth\" in [race]", "expected 0.000001 to 1000"),
    ("race.budget = 10.5", "1:15: bad value 10.5 for \"budget\"", "expected 0 to 10"),
    ("race.budget = nan", "1:15: bad value nan for \"budget\"", "expected 0 to 10"),
    ("race.budget = inf", "1:15: bad value inf for \"budget\"", "expected 0 to 10"),
    ("race.budget = \"10 %\"", "1:15: \"budget\" in [race] is a string", "expected a number"),
    ("race.slo = \"1s\"", "1:12: \"slo\" in [race] is a string", "expected a table"),
    ("race.slo.ttft = \"0s\"", "1:17: bad value \"0s\" for \"ttft\" in slo of [race]", "0.001ms to 365d"),
    ("race.slo.tpot = \"p95\"", "1:17: bad value \"p95\" for \"tpot\" in slo of [race]", "a number and a unit"),
    ("race.hold_max = \"5.1s\"", "1:17: bad value \"5.1s\" for \"hold_max\"", "expected 0s to 5s"),
    ("race.hold_max = \"soon\"", "1:17: bad value \"soon\" for \"hold_max\"", "a number and a unit"),
    ("race.keepalive = \"1.9s\"", "1:18: bad value \"1.9s\" for \"keepalive\" in [race]", "2s to 365d"),
    ("race.keepalive = \"never\"", "1:18: bad value \"never\" for \"keepalive\"", "or \"off\""),
    ("race.keepalive = 10", "1:18: \"keepalive\" in [race] is an integer", "2s to 365d, such as \"5s\""),
    ("providers.groq.domain = \"two words\"", "1:25: bad value \"two words\" for \"domain\"", "a word of at most 64"),
    ("providers.groq.domain = \"\"", "1:25: bad value \"\" for \"domain\" in [providers.groq]", "data centre"),
    ("race.timeouts.idle = \"0s\"", "1:22: bad value \"0s\" for \"idle\"", "1ms to 365d"),
    ("race.breaker.open = \"0s\"", "1:21: bad value \"0s\" for \"open\"", "1ms to 365d"),
    ("race.breaker.failures = -1", "1:25: bad value -1 for \"failures\"", "0 to 10000"),
    (
        "race.breaker.open = \"2m\"",
        "1:6: \"open_max\" in breaker of [race] is 1m, which is shorter than open, 2m",
        "at least",
    ),
    ("race.failovers = 65", "1:18: bad value 65 for \"failovers\"", "expected 0 to 64"),
    ("race.patience = -1", "1:17: bad value -1 for \"patience\"", "0 to 100"),
    ("race.max_attempts = 0", "1:21: bad value 0 for \"max_attempts\"", "expected 1 to 16"),
    ("race.max_attempts = 17", "1:21: bad value 17 for", "expected 1 to 16"),
    ("race.max_attempts = -1", "1:21: bad value -1 for", "expected 1 to 16"),
    ("race.retries = 16", "1:16: bad value 16 for \"retries\"", "expected 0 to 15"),
    ("race.retry_wait = \"6m\"", "1:19: bad value \"6m\" for \"retry_wait\"", "0s to 5m"),
    ("race.audit = 1.5", "1:14: bad value 1.5 for \"audit\"", "expected 0 to 1"),
    ("race.audit = nan", "1:14: bad value nan for \"audit\"", "expected 0 to 1"),
    ("server.listen = \"localhost\"", "1:17: bad value \"localhost\" for \"listen\"", "127.0.0.1:8080"),
    ("server.files = \"opneai\"", "1:16: unknown provider \"opneai\" in files of [server]", "openai"),
    ("server.body_max = \"1KB\"", "1:19: bad value \"1KB\" for \"body_max\"", "1KiB to 1GiB"),
    ("server.body_max = 10", "1:19: bad value 10 for \"body_max\"", "1024 to 1073741824"),
    ("server.body_max = \"big\"", "1:19: bad value \"big\" for \"body_max\"", "32MiB"),
    ("server.listen = \"${UNSET}\"", "1:17: \"listen\" in [server] needs UNSET, which is not set", ":-default"),
    ("server.listen = \"${EMPTY}\"", "1:17: \"listen\" in [server] needs EMPTY", ""),
    ("server.listen = \"${\"", "1:17: \"listen\" in [server] has a \"${\" that is no variable", "${NAME}"),
    // store
    ("store.url = \"mysql://u:planted@h/d\"", "1:13: \"url\" in [store] has the scheme \"mysql\"", "postgres://"),
    ("store.url = \"${UNSET}\"", "1:13: \"url\" in [store] needs UNSET, which is not set", ""),
    ("store.spill = \"\"", "1:15: bad value \"\" for \"spill\"", "photofinish.spill.db"),
    ("store.url = \"history.db\"", "1:13: \"url\" in [store] has no scheme", "sqlite:photofinish.db"),
    ("store.url = \"sqlite::memory:\"", "1:13: \"url\" in [store] names a database in memory", ""),
    ("store.url = \"sqlite:a?mode=ro\"", "1:13: \"url\" in [store] has options", ""),
    ("store.url = \"sqlite:\"", "1:13: \"url\" in [store] names no file", ""),
    // providers
    ("[providers.my-vllm]", "1:12: [providers.my-vllm] has no address", "base_url = "),
    ("[providers.grok]", "1:12: [providers.grok] has no address", "did you mean \"groq\"?"),
    ("providers.azure.api_key = \"k\"", "1:11: [providers.azure] has no address", "base_url"),
    ("providers.a.base_url = \"ftp://h\"", "1:24: \"base_url\" in [providers.a] does not begin with", "http or https"),
    ("providers.a.base_url = \"h:80\"", "1:24: \"base_url\" in [providers.a] does not begin with", ""),
    ("providers.a.base_url = \"http://\"", "1:24: \"base_url\" in [providers.a] is no URL", ""),
    ("providers.a.base_url = \"http://h:x/v1\"", "1:24: \"base_url\" in [providers.a] has no host, or a port", ""),
    ("providers.a.base_url = \"http://u:planted@h\"", "1:24: \"base_url\" in [providers.a] has a user", ""),
    ("providers.a.base_url = \"http://h/?key=planted\"", "1:24: \"base_url\" in [providers.a] has a query", ""),
    ("providers.a.base_url = \"http://h/#f\"", "1:24: \"base_url\" in [providers.a] has a query or a fragment", ""),
    (
        "providers.openai.dialect = \"antropic\"",
        "1:28: bad value \"antropic\" for \"dialect\"",
        "did you mean \"anthropic\"?",
    ),
    ("providers.openai.forward_headers = [\"Cookie\"]", "1:37: \"Cookie\" in \"forward_headers\"", "no credential"),
    ("providers.openai.forward_headers = [\"X-Photofinish-Policy\"]", "1:37: ", "never forwarded"),
    ("providers.openai.forward_headers = [\"a b\"]", "1:37: \"a b\" in", "is not a header name"),
    ("providers.azure = {base_url=\"http://h\",forward_headers=[\"api-key\"]}", "1:57: ", "the provider's own key"),
    ("providers.groq.api_key = \"\"", "1:26: \"api_key\" in [providers.groq] is empty", "${NAME_OF_A_VARIABLE}"),
    ("providers.groq.api_key = []", "1:11: \"api_key\" in [providers.groq] is an empty list", ""),
    ("providers.groq.api_key = \"${SPACED}\"", "1:26: \"api_key\" in [providers.groq] has spaces", "visible ASCII"),
    ("providers.groq.api_key = \"${planted key}\"", "1:26: \"api_key\" in [providers.groq] has a \"${\"", ""),
    ("providers.groq.api_key = \"file:/\"", "1:26: cannot read the file of \"api_key\"", "directory"),
    ("providers.s = {simulate={}, api_key=\"k\"}", "1:11: [providers.s] is simulated and has \"api_key\" too", ""),
    ("providers.s.simulate.failure = \"hung\"", "1:32: bad value \"hung\" for \"failure\"", "did you mean \"hang\"?"),
    ("providers.s.simulate.failures = 2", "1:33: bad value 2 for \"failures\"", "0 to 1"),
    ("providers.s.simulate.tokens = 0", "1:31: bad value 0 for \"tokens\"", "1 to 100000"),
    ("providers.s.simulate.stall = \"20s every 2s\"", "1:30: bad value \"20s every 2s\" for \"stall\"", "2s every 20s"),
    ("providers.s.simulate.slots = -1", "1:30: bad value -1 for \"slots\"", "0 to 100000"),
    ("providers.s.simulate.prefill = nan", "1:32: bad value nan for \"prefill\"", "0 to 1000000000"),
    ("providers.s.simulate.usage = 0", "1:30: \"usage\" in simulate of [providers.s] is an integer", "true or false"),
    ("providers.s.simulate.ttft = \"2h\"", "1:29: bad value \"2h\" for \"ttft\"", "to 1h"),
    // models
    (
        "[models.a]",
        "1:9: [models.a] has no \"upstreams\", and the catalogue has no model of this name",
        "groq/openai/gpt-oss-120b",
    ),
    ("models.a.upstreams = []", "1:22: \"upstreams\" in [models.a] is empty", ""),
    ("models.a.upstreams = \"groq/x\"", "1:22: \"upstreams\" in [models.a] is a string", "a list such as"),
    ("models.a.upstreams = [\"groq\"]", "1:23: bad upstream \"groq\"", "PROVIDER/MODEL"),
    ("models.a.upstreams = [\"gorq/x\"]", "1:23: unknown provider \"gorq\"", "did you mean \"groq\"?"),
    ("models.a.upstreams = [\"azure/x\"]", "1:23: provider azure has no address", "[providers.azure]"),
    ("models.a.upstreams = [\"groq/x\", \"groq/x\"]", "1:33: the upstream \"groq/x\" is listed twice", ""),
    ("models.a.upstreams = [{weight=1}]", "1:23: an upstream of [models.a] has no \"upstream\"", "PROVIDER/MODEL"),
    ("models.a.upstreams = [{upstream=\"groq/x\",weight=-1}]", "1:49: bad value -1 for \"weight\"", ""),
    ("models.a.upstreams = [{upstream=\"groq/x\",weight=0}]", "1:8: every upstream of [models.a] has the weight", ""),
    ("models.a.upstreams = [{upstream=\"groq/x\",input_price=1}]", "1:23: an upstream of", "no \"output_price\""),
    ("models.a.upstreams = [{upstream=\"groq/x\",cached_price=1}]", "1:23: an upstream of", "no \"input_price\""),
    ("models.a.upstreams = [{upstream=\"groq/x\",cache_write_price=1}]", "1:23: an upstream of", "no \"input_price\""),
    (
        "models.a.upstreams = [{upstream=\"groq/x\",input_price=1,output_price=1,cached_price=-1}]",
        "1:84: bad value -1 for \"cached_price\"",
        "0 to 1000000",
    ),
    ("models.a.upstreams = [{upstream=\"groq/x\",timeouts={total=\"1s\"}}]", "1:52: unknown key \"total\"", "idle"),
    ("models.\"a,b\".upstreams = [\"groq/x\"]", "1:8: the model name in [models.a,b] is not usable", "commas"),
    ("models.a = {upstreams=[\"groq/x\"],aliases=[\"a\"]}", "1:43: the alias \"a\" in [models.a] is the name", ""),
    (
        "models.a = {upstreams=[\"groq/x\"],aliases=[\"b\",\"b\"]}",
        "1:47: the alias \"b\"",
        "of the model \"a\" already",
    ),
    // users
    ("[server]\nlisten = \"0.0.0.0:80\"", "2:10: \"listen\" in [server] is 0.0.0.0:80", "token = \"${ALICE_TOKEN}\""),
    ("users.a = {}", "1:7: [users.a] has no token", "token_sha256"),
    ("users.a.token = \"${UNSET}\"", "1:17: \"token\" in [users.a] needs UNSET, which is not set", ""),
    ("users.a.token = \"${BLANK}\"", "1:17: \"token\" in [users.a] needs BLANK", ""),
    ("users.a.token = \"\"", "1:17: \"token\" in [users.a] is empty", ""),
    ("users.a.token = \"file:/nonexistent/t\"", "1:17: \"token\" in [users.a] needs file:/nonexistent/t", "missing"),
    ("users.a.token_sha256 = \"planted\"", "1:24: \"token_sha256\" in [users.a] is no SHA-256", "64 hexadecimal"),
    ("users.a = {token=\"t\",token_sha256=\"x\"}", "1:7: [users.a] has both \"token\" and", "either"),
    (
        "users.a.token = \"planted\"\nusers.b.token = \"planted\"",
        "2:17: [users.b] has the same token as [users.a]",
        "for each user",
    ),
    (
        "providers.groq.api_key=\"k\"\nusers.a = {token=\"t\",keys={gorq=\"planted\"}}",
        "2:28: unknown provider \"gorq\" in keys of [users.a]",
        "did you mean \"groq\"?",
    ),
    ("users.a = {token=\"t\",keys={azure=\"k\"}}", "1:28: provider azure has no address", "a table [providers.azure]"),
    // syntax
    ("[race]\naudit = = 1\n[sever]", "2:9: not TOML: ", ""),
    ("race.audit = 1\nrace.audit = 2", "2:6: not TOML: \"audit\" stands here a second time", "leave one out"),
    ("users.a.token = \"planted", "1:25: not TOML: ", ""),
    ("# mine\nmodels:\n  fast: {}\n", "2:8: not TOML: the file is YAML; write tables", "[models.fast]"),
    ("{\"models\": {}}", "1:1: not TOML: the file is JSON; write tables", "[models.fast]"),
];

#[test]
fn each_problem_has_its_place_and_a_way_out() {
    let mut wrong = String::new();
    for (text, start, also) in PROBLEMS {
        let problems = bad(text).to_string();
        let placed = problems.starts_with(&format!("config.toml:{start}")) && problems.contains(also);
        let secret = problems.contains("planted");
        if !placed || secret || !problems.ends_with("\n1 problem") {
            wrong.push_str(&format!("{problems}\nin {text}\n\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn all_problems_come_at_once_in_the_order_of_the_file() {
    let problems = bad("[models.a]\nupstreams = [\"nobody/x\", 1]\n[race]\npolcy = 1\naudit = 7\n[server]\nlisten = 3");
    let lines: Vec<_> = problems.list.iter().map(|problem| (problem.line, problem.column)).collect();
    assert_eq!(lines, [(2, 14), (2, 26), (4, 1), (5, 9), (7, 10)], "{problems}");
    assert!(problems.to_string().ends_with("\n5 problems"), "{problems}");
}

#[test]
fn one_mistake_is_one_problem() {
    for text in [
        "providers.a.base_url = \"nonsense\"\nmodels.m.upstreams = [\"a/x\"]\nusers.u = {token=\"t\",keys={a=\"k\"}}",
        "models.a.upstreams = [\"s/x\"]\nproviders.s.simulate = {}\nprobes.max_cost = -1",
        "probes = { max_cost = 1, models = 5 }",
    ] {
        let problems = bad(text);
        assert_eq!(problems.list.len(), 1, "{problems}");
    }
}
