// Package gateway is the node's HTTP side (SPEC §9): a public listener that
// shows content to browsers, and an admin listener and Unix socket that serve
// the node's pages and its local API.
//
//	public   GET|HEAD /  /o/{b3}  /b3/{b3}/{path…}  /healthz  /readyz
//	admin    GET|HEAD /healthz /readyz /metrics /version /limits, /api/v1/<verb>
//
// This package composes: it holds the configuration and the table of routes. Package
// server has the listeners and runs a route; what a route leads to is content,
// upload, admin or openapi; package exchange is what all of these name.
//
// It knows nothing of the store and the network: content comes through
// [content.Content] from [content.Objects], the API's verbs are a [api.Node].
//
// Invariants:
//
//   - What leaves was verified by the Content that wrote it, and a body that
//     ends early never looks whole: before the first byte an error is a
//     problem, after it the connection is cut.
//   - Health, readiness, metrics, version and limits wait for nothing, pass no
//     gate and are answered while the node drains.
//   - Nothing is unbounded: connections, requests in flight, their rate, header
//     and body sizes, and how long either side may stand still.
//   - No script of the content runs in the gateway's origin.
//
// One request, walked through: GET /b3/b3:…/docs/ with "Range: bytes=0-99".
// The listener counts the connection in; the request gets a correlation id, its
// host is checked, it takes a place in flight and a token. The path is split
// and unescaped segment by segment, the entry is looked up, the directory's
// index.html is opened: its size is a proved fact now. The range is normalised
// against it. Content.Copy proves the first group and writes it; that write is
// what sends the header, 206 with the file's address as its ETag. Each further
// write renews the deadline. The client goes away: the write fails, Copy
// returns, the Content is closed.
package gateway
