package gateway

import "testing"

const (
	allowObject  = "Allow: GET, HEAD, PUT, OPTIONS"
	allowReading = "Allow: GET, HEAD, OPTIONS"
)

// methodTable is RFC 9110 §9: what each kind of page answers to each method.
var methodTable = []asked{
	{rfc: "RFC 9110 §9.3.1", ask: "GET /", code: 200, holds: "~<!doctype html>"},
	{
		rfc: "RFC 9110 §9.3.1", ask: "GET {text}", code: 200,
		want: "ETag: {text.tag} | Content-Length: 13 | Accept-Ranges: bytes | " +
			"Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT | Content-Encoding: | " +
			"Set-Cookie: | Server:",
		holds: "=" + helloText,
	},
	{rfc: "RFC 9110 §9.3.1", ask: "GET {empty}", code: 200, want: "Content-Length: 0", holds: "="},
	{rfc: "RFC 9110 §9.3.1", ask: "GET {big}", code: 200, want: "Content-Length: 196708"},
	{
		rfc: "RFC 9110 §9.3.1", ask: "GET {text}?format=bao", code: 200,
		want: "{bao.type} | Content-Length: 21 | Content-Location: {text}?format=bao",
	},
	{rfc: "RFC 9110 §9.3.1", ask: "GET {big}?format=bao", code: 200},
	{rfc: "RFC 9110 §9.3.1", ask: "GET {remote}", code: 200, holds: "=far away"},
	{rfc: "RFC 9110 §9.3.1", ask: "GET {dir}/", code: 200, holds: "~readme.txt"},
	{
		rfc: "RFC 9110 §9.3.1", ask: "GET {dir}/?format=json", code: 200, want: "Content-Type: application/json",
		holds: `~"readme.txt"`,
	},
	{rfc: "RFC 9110 §9.3.1", ask: "GET {dir}/docs/", code: 200, want: "ETag: {index.tag} | Vary: Accept"},
	{rfc: "RFC 9110 §9.3.1", ask: "GET {file}", code: 200, want: "ETag: {file.tag}"},
	{rfc: "RFC 9110 §9.3.1", ask: "GET /healthz", code: 200, holds: "=ok\n"},
	{
		rfc: "RFC 9110 §9.3.1", ask: "GET /readyz", code: 200,
		want: "Content-Type: application/json | Cache-Control: no-store", holds: `~"ready":true`,
	},
	{rfc: "RFC 9110 §9.3.1", ask: "GET /openapi.json", code: 200, holds: `~"openapi": "3.1`},
	{rfc: "RFC 9110 §9.3.1", ask: "GET /verify.mjs", code: 200, want: "Content-Type: text/javascript; charset=utf-8"},
	{rfc: "RFC 9110 §9.3.1", ask: "GET /favicon.ico", code: 200, want: "Content-Type: image/svg+xml"},
	{rfc: "RFC 9110 §15.5.5", ask: "GET /metrics", code: 404, reason: "not_found"},
	{rfc: "RFC 9110 §15.5.5", ask: "GET /version", code: 404, reason: "not_found"},
	{rfc: "RFC 9110 §15.5.5", ask: "GET /api/v1/id", code: 404, reason: "not_found"},
	{
		rfc: "RFC 9110 §15.5.5", ask: "POST /api/v1/drain",
		with: []string{"Authorization: Bearer may-drain", "Content-Length: 0"}, code: 404, reason: "not_found",
	},
	{rfc: "RFC 9110 §15.5.5", ask: "GET /OPENAPI.json", code: 404, reason: "not_found"},
	{rfc: "RFC 9110 §15.5.5", ask: "GET /healthz/", code: 404, reason: "not_found"},

	{
		rfc: "RFC 9110 §15.5.6", ask: "POST {text}", with: []string{"Content-Length: 0"}, code: 405, reason: "method",
		want: allowObject,
	},
	{rfc: "RFC 9110 §15.5.6", ask: "DELETE {text}", code: 405, reason: "method", want: allowObject},
	{
		rfc: "RFC 9110 §15.5.6", ask: "PATCH {text}", with: []string{"Content-Length: 3"}, code: 405, reason: "method",
		want: allowObject, closes: true,
	},
	{rfc: "RFC 9110 §15.5.6", ask: "PROPFIND {text}", code: 405, reason: "method", want: allowObject},
	{
		rfc: "RFC 9110 §9.3.8: no echo", ask: "TRACE {text}", with: []string{"Cookie: secret"}, code: 405,
		reason: "method", want: allowObject,
	},
	{rfc: "RFC 9110 §9.1: case", ask: "get {text}", code: 405, reason: "method", want: allowObject},
	{
		rfc: "RFC 9110 §15.5.6", ask: "PUT {dir}/x", with: []string{"{put}", "Content-Length: 5"}, code: 405,
		reason: "method", want: allowReading, closes: true,
	},
	{rfc: "RFC 9110 §15.5.6", ask: "DELETE {file}", code: 405, reason: "method", want: allowReading},
	{
		rfc: "RFC 9110 §15.5.6", ask: "POST /healthz", with: []string{"Content-Length: 1000000000"}, code: 405,
		reason: "method", want: allowReading, closes: true,
	},
	{
		rfc: "RFC 9110 §15.5.6", ask: "PUT /", with: []string{"Content-Length: 0"}, code: 405, reason: "method",
		want: allowReading,
	},
	{rfc: "RFC 9110 §15.5.6", ask: "GET /o", code: 405, reason: "method", want: "Allow: POST, OPTIONS"},
	{rfc: "RFC 9110 §15.5.6", ask: "GET {upload}", code: 405, reason: "method"},
	{rfc: "RFC 9110 §15.5.6", ask: "GET /u", code: 405, reason: "method"},
	{rfc: "RFC 9110 §15.5.6", ask: "DELETE /openapi.json", code: 405, reason: "method", want: allowReading},

	{
		rfc: "RFC 9110 §9.3.7", ask: "OPTIONS {text}", code: 204,
		want: allowObject + " | Content-Length: | Content-Type:", holds: "=",
	},
	{rfc: "RFC 9110 §9.3.7", ask: "OPTIONS {none}", code: 204, want: allowObject},
	{rfc: "RFC 9110 §9.3.7", ask: "OPTIONS {dir}/", code: 204, want: allowReading},
	{rfc: "RFC 9110 §9.3.7", ask: "OPTIONS /healthz", code: 204, want: allowReading},
	{rfc: "RFC 9110 §9.3.7", ask: "OPTIONS /o", code: 204, want: "Allow: POST, OPTIONS"},
	{
		rfc: "RFC 5789 §3.1", ask: "OPTIONS {upload}", code: 204,
		want: "Allow: OPTIONS, HEAD, PATCH, DELETE | Accept-Patch: application/offset+octet-stream",
	},
	{rfc: "RFC 9110 §9.3.7", ask: "OPTIONS /nothing", code: 404, reason: "not_found"},
	{
		rfc: "SPEC §9: no CORS", ask: "OPTIONS {text}",
		with: []string{"Origin: https://evil.example", "Access-Control-Request-Method: PUT"}, code: 204,
		want: "Access-Control-Allow-Origin: | Access-Control-Allow-Methods:",
	},
	{
		rfc: "SPEC §9: no CORS", ask: "GET {text}", with: []string{"Origin: https://evil.example"}, code: 200,
		want: "Access-Control-Allow-Origin:",
	},
	{rfc: "RFC 9112 §3.2.4", ask: "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", code: 200, want: "Content-Length: 0"},
	{
		rfc: "RFC 9112 §3.2.3", ask: "CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n", code: 405,
		reason: "method", want: allowReading,
	},
	{rfc: "Go: RFC 9110 §9.1: a token", ask: "G(T / HTTP/1.1\r\nHost: x\r\n\r\n", code: 400, closes: true},

	{
		rfc: "RFC 9110 §15.5.2", ask: "PUT {none}", with: []string{"Content-Length: 0"}, code: 401,
		reason: "unauthenticated", want: "WWW-Authenticate: Bearer",
	},
	{
		rfc: "RFC 9110 §15.5.2: unread", ask: "PUT {none}", with: []string{"Content-Length: 1000000000"}, code: 401,
		reason: "unauthenticated", closes: true,
	},
	{
		rfc: "RFC 6750 §2.1", ask: "POST /o", with: []string{"Authorization: Basic bWF5LXB1dA==", "Content-Length: 0"},
		code: 401, reason: "unauthenticated", want: "WWW-Authenticate: Bearer",
	},
	{
		rfc: "RFC 6750 §2.3: not in the query", ask: "POST /o?access_token=may-put",
		with: []string{"Content-Length: 0"}, code: 401, reason: "unauthenticated",
	},
	{
		rfc: "RFC 9110 §15.5.4", ask: "POST /o", with: []string{"Authorization: Bearer may-get", "Content-Length: 0"},
		code: 403, reason: "forbidden", want: "WWW-Authenticate:",
	},
	{
		rfc: "RFC 9110 §11.6.2: once", ask: "POST /o", with: []string{"{put}", "{put}", "Content-Length: 0"}, code: 401,
		reason: "unauthenticated",
	},
	{
		rfc: "RFC 9110 §11.1: scheme case", ask: "POST /o",
		with: []string{"Authorization: bEARER may-put,pin", "Content-Length: 0"}, code: 200, want: "Location: {empty}",
	},
	{
		rfc: "RFC 9110 §9.3.4: here", ask: "PUT {text}", with: []string{"{put}", "Content-Length: 0"}, code: 200,
		want: "Location: {text}",
	},
	{
		rfc: "RFC 9110 §9.3.4: here, unread", ask: "PUT {text}", with: []string{"{put}", "Content-Length: 1000000000"},
		code: 200, closes: true,
	},
	{
		rfc: "RFC 9110 §14.4", ask: "PUT {none}",
		with: []string{"{put}", "Content-Range: bytes 0-4/10", "Content-Length: 0"}, code: 400, reason: "bad_request",
	},
	{
		rfc: "SPEC §1: lowercase", ask: "PUT /o/b3:{none.HEX}", with: []string{"{put}", "Content-Length: 0"}, code: 308,
		want: "Location: {none}",
	},
	{
		rfc: "SPEC §1: an address", ask: "PUT /o/b3:abc", with: []string{"{put}", "Content-Length: 0"}, code: 400,
		reason: "bad_address",
	},
	{
		rfc: "RFC 9110 §15.5.10", ask: "PUT {none}", with: []string{"{put}", "Content-Length: 0"}, code: 409,
		reason: "bad_digest",
	},
	{
		rfc: "SPEC §9: parameters", ask: "POST /o?pinned=true", with: []string{"{put}", "Content-Length: 0"}, code: 400,
		reason: "bad_request",
	},

	{
		rfc:  "RFC 9110 §10.1.1",
		ask:  "PUT {new} HTTP/1.1\r\nHost: x\r\n{put}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
		code: 201, want: "Location: {new}",
	},
	{rfc: "Go: RFC 9110 §15.5.18", ask: "GET {text}", with: []string{"Expect: the-best"}, code: 417, closes: true},
	{rfc: "RFC 9110 §10.1.1: no body, no 100", ask: "GET {text}", with: []string{"Expect: 100-continue"}, code: 200},
	{
		rfc: "RFC 9110 §10.1.1: refused first", ask: "PUT {none}",
		with: []string{"Expect: 100-continue", "Content-Length: 5"}, code: 401, reason: "unauthenticated", closes: true,
	},

	{
		rfc: "docs/http.md: pieces", ask: "HEAD {upload}", with: []string{"{put}"}, code: 200,
		want: "Upload-Offset: 0 | Upload-Length: 5 | Cache-Control: no-store",
	},
	{rfc: "docs/http.md: pieces", ask: "HEAD {upload}", code: 401, reason: "unauthenticated"},
	{
		rfc: "docs/http.md: pieces", ask: "POST /u", with: []string{"{put}", "Content-Length: 0"}, code: 400,
		reason: "bad_request",
	},
	{
		rfc: "docs/http.md: pieces", ask: "POST /u", with: []string{"{put}", "Content-Length: 0", "Upload-Length: +5"},
		code: 400, reason: "bad_request",
	},
	{
		rfc: "docs/http.md: pieces", ask: "POST /u",
		with: []string{"{put}", "Content-Length: 0", "Upload-Length: 5", "Upload-Length: 5"}, code: 400,
		reason: "bad_request",
	},
	{
		rfc: "docs/http.md: pieces", ask: "POST /u",
		with: []string{"{put}", "Content-Length: 0", "Upload-Length: 99999999999999999999"}, code: 400,
		reason: "bad_request",
	},
	{
		rfc: "docs/http.md: pieces", ask: "PATCH {upload}",
		with: []string{"{put}", "Content-Length: 0", "Upload-Offset: 0"}, code: 415, reason: "unsupported",
	},
	{
		rfc: "RFC 5789 §2.2", ask: "PATCH {upload}",
		with: []string{"{put}", "Content-Length: 0",
			"Content-Type: application/offset+octet-stream", "Upload-Offset: 3"},
		code: 409, reason: "conflict", want: "Upload-Offset: 0",
	},
	{
		rfc: "docs/http.md: pieces",
		ask: "PATCH {upload} HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Type: application/offset+octet-stream\r\n" +
			"Upload-Offset: 0\r\nContent-Length: 6\r\n\r\nhello!",
		code: 413, reason: "body_cap", want: "Upload-Offset: 0", closes: true,
	},
	{
		rfc: "docs/http.md: pieces",
		ask: "PATCH {upload} HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Type: application/offset+octet-stream\r\n" +
			"Upload-Offset: 0\r\nContent-Length: 3\r\n\r\nhel",
		code: 204, want: "Upload-Offset: 3 | Content-Length:",
	},
	{
		rfc: "docs/http.md: pieces",
		ask: "PATCH {upload} HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Type: application/offset+octet-stream\r\n" +
			"Upload-Offset: 3\r\nContent-Length: 2\r\n\r\nlo",
		code: 200, want: "Location: {new}",
	},
	{rfc: "docs/http.md: pieces", ask: "DELETE {upload}", with: []string{"{put}"}, code: 204, want: "Content-Length:"},
	{
		rfc: "RFC 9110 §15.5.11", ask: "HEAD {upload}", with: []string{"{put}", "X-Corr-ID: gone"}, code: 410,
		reason: "gone",
	},
	{rfc: "RFC 9110 §15.5.5", ask: "DELETE /u/0123", with: []string{"{put}"}, code: 404, reason: "not_found"},
}

func TestConformanceMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openUpload(t)
	w.conform(t, methodTable)
}
