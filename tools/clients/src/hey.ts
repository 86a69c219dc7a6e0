// The client of hey-api.
import { createClient } from "./generated/hey/client/index.js";
import { adminPin, browse, getObject, pins, postObject, putObject } from "./generated/hey/sdk.gen.js";
import { args, check, must } from "./check.js";

const { gateway, admin, token, seed } = args();
const content = createClient({ baseUrl: gateway, auth: token });
const api = createClient({ baseUrl: admin, auth: token });

await check({
  async post(bytes) {
    return must(await postObject({ client: content, body: new Blob([bytes]) })).root;
  },
  async put(b3, bytes) {
    must(await putObject({ client: content, path: { b3 }, body: new Blob([bytes]) }));
  },
  async get(b3) {
    const blob = must(await getObject({ client: content, path: { b3 }, parseAs: "blob" }));
    return new Uint8Array(await (blob as Blob).arrayBuffer());
  },
  async browse(path) {
    const blob = must(await browse({ client: content, path: { path }, parseAs: "blob" }));
    return new Uint8Array(await (blob as Blob).arrayBuffer());
  },
  async pin(key) {
    must(await adminPin({ client: api, body: { key } }));
  },
  async pins() {
    const all = must(await pins({ client: api, headers: { Accept: "application/json" } }));
    if (!Array.isArray(all)) throw new Error("the pins are no array");
    return all.map((p) => p.root);
  },
}, seed);
