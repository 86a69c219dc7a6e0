// The client of openapi-typescript and openapi-fetch.
import createClient from "openapi-fetch";
import type { paths } from "./generated/schema.js";
import { args, check, must } from "./check.js";

const { gateway, admin, token, seed } = args();
const headers = { Authorization: `Bearer ${token}` };
const content = createClient<paths>({ baseUrl: gateway, headers });
const api = createClient<paths>({ baseUrl: admin, headers });

// openapi-fetch makes JSON of a body unless it is told how to send it.
const bytesAsTheyAre = { bodySerializer: (body: unknown) => body as BodyInit, headers: { "Content-Type": "application/octet-stream" } };

await check({
  async post(bytes) {
    return must(await content.POST("/o", { body: new Blob([bytes]) as unknown as string, ...bytesAsTheyAre })).root;
  },
  async put(b3, bytes) {
    must(await content.PUT("/o/{b3}", { params: { path: { b3 } }, body: new Blob([bytes]) as unknown as string, ...bytesAsTheyAre }));
  },
  async get(b3) {
    const { data, error } = await content.GET("/o/{b3}", { params: { path: { b3 } }, parseAs: "arrayBuffer" });
    if (error !== undefined) throw new Error(JSON.stringify(error));
    return new Uint8Array((data as ArrayBuffer | undefined) ?? new ArrayBuffer(0)); // openapi-fetch has no data for an empty body
  },
  async browse(path) {
    const { data, error } = await content.GET("/b3/{path}", { params: { path: { path } }, parseAs: "arrayBuffer" });
    if (error !== undefined) throw new Error(JSON.stringify(error));
    return new Uint8Array((data as ArrayBuffer | undefined) ?? new ArrayBuffer(0));
  },
  async pin(key) {
    must(await api.POST("/admin/pin", { body: { key } }));
  },
  async pins() {
    const pins = must(await api.GET("/api/v1/pin/ls", { headers: { Accept: "application/json" } }));
    if (!Array.isArray(pins)) throw new Error("the pins are no array");
    return pins.map((p) => p.root);
  },
}, seed);
