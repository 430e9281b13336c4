// A real issuer of OpenID Connect (npm oidc-provider), whose users and groups can be changed while it runs: POST /test/users
// {"ada": ["ml"]}; null removes one.
//
// issuer.mjs PORT REDIRECT [rotate] [whole]: rotate: each refresh token counts once; whole: ID tokens have all claims.
import { generateKeyPairSync } from "node:crypto";
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [port, redirect, ...modes] = process.argv.slice(2);
const main = createRequire(`${process.env.KITS}/`).resolve("oidc-provider");
const { Provider } = await import(pathToFileURL(main).href);
const issuer = `http://127.0.0.1:${port}`;
const users = { ada: ["ml"], bob: ["staff"], eve: [], root: ["admins"] };
// A new one with each start: restarting it is a rotation.
const key = { ...generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256" };
const provider = new Provider(issuer, {
  clients: [{
    client_id: "photofinish", client_secret: "a-secret-of-the-client", redirect_uris: [redirect], response_types: ["code"],
    grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
  }],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
  scopes: ["openid", "offline_access", "email", "profile", "groups"],
  features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true }, userinfo: { enabled: true } },
  conformIdTokenClaims: !modes.includes("whole"),
  cookies: { keys: ["of-a-test"] },
  findAccount: (_, id) => users[id] && {
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, name: id, groups: users[id] }),
  },
  issueRefreshToken: (_, client, code) => client.grantTypeAllowed("refresh_token") && code.scopes.has("offline_access"),
  jwks: { keys: [key] },
  rotateRefreshToken: modes.includes("rotate"),
});
const answer = provider.callback();
http.createServer((request, response) => {
  if (request.url !== "/test/users") return answer(request, response);
  let body = "";
  request.on("data", (part) => (body += part)).on("end", () => {
    for (const [name, groups] of Object.entries(JSON.parse(body))) groups === null ? delete users[name] : (users[name] = groups);
    response.end();
  });
}).listen(Number(port), "127.0.0.1", () => console.log(`listening on ${issuer}`));
