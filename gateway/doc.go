// Package gateway is the node's HTTP side (SPEC §9). A public listener serves content to browsers.
// An admin listener and a Unix socket serve the node's pages and its local API.
//
//	public   GET|HEAD /  /o/{b3}  /b3/{b3}/{path…}  /healthz  /readyz, PUT|POST of objects
//	admin    GET|HEAD /healthz /readyz /metrics /version /limits, /api/v1/<verb>, /admin/<verb>
//
// This package composes: it holds the configuration and the route table. Package server runs the
// listeners and finds the route of a request. The handlers are in packages content, upload, admin
// and openapi. Package exchange defines what they share.
//
// The gateway knows nothing of the store and the network. It opens content through
// [content.Objects], and an [api.Node] implements the API's verbs.
//
// Invariants:
//
//   - A [content.Content] verifies every byte before it writes it.
//   - A body that ends early never looks complete. An error before the first byte becomes a
//     problem, and a later one cuts the connection.
//   - Health, readiness, metrics, version and limits wait for nothing, pass no limit and are served
//     while the node drains.
//   - Everything has a limit: connections, requests in flight, their rate, the size of headers and
//     bodies, and the time that either side may pause.
//   - A script in the content never runs in the gateway's origin.
//
// One request, walked through: GET /b3/b3:…/docs/ with "Range: bytes=0-99". The listener counts the
// connection. The request gets a correlation id, its host is checked, and it takes a place in
// flight and a token of the rate. The path is split and each segment unescaped alone. The entry is
// looked up and the directory's index.html is opened, which proves its size. The range is parsed
// for that size. Content.Copy proves the first chunk group and writes it. That write sends the
// header: 206, with the file's address as its ETag. Each further write renews the deadline. If the
// client goes away, the write fails, Copy returns and the Content is closed.
package gateway
