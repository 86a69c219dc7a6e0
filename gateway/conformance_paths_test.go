package gateway

import (
	"strings"
	"testing"
)

// pathTable is RFC 3986 against what a path must not reach. Where a target is
// not what the table can write, it is made of its name in pathOf.
var pathTable = []asked{
	{rfc: "RFC 3986 §2.1: escaped colon", ask: "GET /o/b3%3A{text.hex}", code: 200, holds: "=" + helloText},
	{rfc: "RFC 3986 §2.1: escaped digits", ask: "GET /b3/b3%3a{dir.b3}", code: 400, reason: "bad_address"},
	{rfc: "SPEC §1: lowercase", ask: "GET /o/b3:{text.HEX}", code: 308, want: "Location: {text}"},
	{rfc: "SPEC §1: lowercase", ask: "GET /o/B3%3A{text.HEX}?format=bao", code: 308, want: "Location: {text}?format=bao"},
	{
		rfc: "SPEC §1: lowercase", ask: "GET /b3/b3:{dir.HEX}/docs/?x=/../%2e", code: 308,
		want: "Location: {dir}/docs/?x=/../%2e",
	},
	{rfc: "SPEC §1: an address", ask: "GET /o/", code: 400, reason: "bad_address"},
	{rfc: "bare digits", ask: "GET /o/{text.hex}", code: 308, want: "Location: {text}"},
	{rfc: "SPEC §1: an address", ask: "GET {text}0", code: 400, reason: "bad_address"},
	{rfc: "SPEC §1: an address", ask: "GET {text}/", code: 400, reason: "bad_address"},
	{rfc: "SPEC §1: an address", ask: "GET {text}%2f", code: 400, reason: "bad_address"},
	{rfc: "SPEC §1: an address", ask: "GET {text}%00", code: 400, reason: "bad_address"},
	{rfc: "SPEC §1: an address", ask: "GET {text}%20", code: 400, reason: "bad_address"},
	{rfc: "SPEC §1: an address", ask: "GET {text};v=1", code: 400, reason: "bad_address"},
	{rfc: "SPEC §1: an address", ask: "GET {text}%0d%0aX-Evil:%201", code: 400, reason: "bad_address", want: "X-Evil:"},
	{rfc: "SPEC §1: an address", ask: "GET /o/%1b%5b31m%7f%c2%9b%e2%80%ae", code: 400, reason: "bad_address"},
	{rfc: "SPEC §1: an address", ask: "GET /b3/%1b%5b31m%7f%c2%9b%e2%80%ae/", code: 400, reason: "bad_address"},

	{rfc: "RFC 3986 §5.2.4: not removed here", ask: "GET {dir}/docs/../readme.txt", code: 400, reason: "bad_request"},
	{rfc: "RFC 3986 §5.2.4", ask: "GET {dir}/..", code: 400, reason: "bad_request"},
	{rfc: "RFC 3986 §5.2.4", ask: "GET {dir}/../../healthz", code: 400, reason: "bad_request"},
	{rfc: "RFC 3986 §5.2.4", ask: "GET {dir}/./readme.txt", code: 200, holds: "=read me\n"},
	{rfc: "RFC 3986 §6.2.2.2", ask: "GET {dir}/%2e%2e/", code: 400, reason: "bad_request"},
	{rfc: "RFC 3986 §6.2.2.2", ask: "GET {dir}/%2E%2e%2fetc/passwd", code: 400, reason: "bad_request"},
	{rfc: "RFC 3986 §6.2.2.2", ask: "GET {dir}/.%2e/", code: 400, reason: "bad_request"},
	{rfc: "RFC 3986 §6.2.2.2", ask: "GET {dir}/%2e/readme.txt", code: 200, holds: "=read me\n"},
	{rfc: "RFC 3986 §2.2: a slash within", ask: "GET {dir}/..%2freadme.txt", code: 400, reason: "bad_request"},
	{rfc: "a page has one URL", ask: "GET {dir}/docs%2findex.html", code: 301, want: "Location: {dir}/docs/index.html"},
	{rfc: "a backslash is of a name", ask: "GET {dir}/..%5c..%5cetc", code: 404, reason: "not_found"},
	{rfc: "no backslash", ask: `GET {dir}/docs\index.html`, code: 404, reason: "not_found"},
	{rfc: "no NUL", ask: "GET {dir}/readme.txt%00.html", code: 400, reason: "bad_request"},
	{rfc: "RFC 3986 §2.4: unescaped once", ask: "GET {dir}/%252e%252e/", code: 404, reason: "not_found"},
	{rfc: "RFC 3986 §2.4: unescaped once", ask: "GET {dir}/%252e%252e%252fetc", code: 404, reason: "not_found"},
	{
		rfc: "RFC 3986 §2.4: unescaped once", ask: "GET {dir}/%C3%A9t%C3%A9%20%26%20co/na%C3%AFve%20%252C.txt",
		code: 200, holds: "=non-ascii\n",
	},
	{rfc: "RFC 3629 §3: overlong", ask: "GET {dir}/%c0%ae%c0%ae/", code: 400, reason: "bad_request"},
	{rfc: "RFC 3629 §3: overlong", ask: "GET {dir}/%c0%af", code: 400, reason: "bad_request"},
	{rfc: "RFC 3629 §3: overlong", ask: "GET {dir}/%e0%80%af", code: 400, reason: "bad_request"},
	{rfc: "RFC 3629 §3: surrogate", ask: "GET {dir}/%ed%a0%80", code: 400, reason: "bad_request"},
	{rfc: "RFC 3629 §3: not UTF-8", ask: "GET {dir}/%ff%fe", code: 400, reason: "bad_request"},
	{rfc: "Go: RFC 3986 §2.1: %u", ask: "GET {dir}/%u002e%u002e/", code: 400, closes: true},
	{rfc: "Go: RFC 3986 §2.1: bad escape", ask: "GET {dir}/%zz", code: 400, closes: true},
	{rfc: "Go: RFC 3986 §2.1: bad escape", ask: "GET {dir}/% HTTP/1.1\r\nHost: x\r\n\r\n", code: 400, closes: true},
	{rfc: "RFC 3986 §3.3: empty segment", ask: "GET {dir}//readme.txt", code: 200, holds: "=read me\n"},
	{rfc: "RFC 3986 §3.3: empty segment", ask: "GET {dir}/docs//", code: 301, want: "Location: {dir}/docs/"},
	{rfc: "RFC 3986 §3.3: empty segment", ask: "GET /{file}", code: 404, reason: "not_found"},
	{rfc: "RFC 3986 §3.3: empty segment", ask: "GET //healthz", code: 404, reason: "not_found"},
	{rfc: "RFC 3986 §3.3: empty segment", ask: "GET /b3/{file}", code: 400, reason: "bad_address"},
	{rfc: "RFC 3986 §3.3: a parameter is a name", ask: "GET {file};v=1", code: 404, reason: "not_found"},
	{rfc: "RFC 3986 §3.3: a parameter is a name", ask: "GET {dir}/..;/readme.txt", code: 404, reason: "not_found"},
	{rfc: "RFC 3986 §3.5: no fragment", ask: "GET {file}#top", code: 404, reason: "not_found"},
	{rfc: "RFC 3986 §3.4: a query is no path", ask: "GET {file}?/../../etc/passwd", code: 200, holds: "=read me\n"},
	{rfc: "RFC 3986 §6.2.2.1: case counts", ask: "GET {dir}/README.TXT", code: 404, reason: "not_found"},
	{rfc: "RFC 3986 §2.3: escaped letters", ask: "GET {dir}/%72%65adme%2Etxt", code: 200, holds: "=read me\n"},
	{rfc: "SPEC §1: NFC", ask: "GET {dir}/e%CC%81te%CC%81%20%26%20co/", code: 200, holds: "~%252C.txt"},
	{rfc: "SPEC §9: below a file", ask: "GET {file}/x", code: 404, reason: "not_found"},
	{rfc: "SPEC §9: a file's slash", ask: "GET {file}/", code: 404, reason: "not_found"},
	{rfc: "SPEC §9: a directory's slash", ask: "GET {dir}/docs?a=b", code: 301, want: "Location: {dir}/docs/?a=b"},
	{
		rfc: "RFC 9110 §10.2.2: escaped", ask: "GET {dir}/%C3%A9t%C3%A9%20%26%20co", code: 301,
		want: "Location: {dir}/%C3%A9t%C3%A9%20&%20co/",
	},
	{
		rfc: "RFC 9110 §10.2.2: escaped", ask: "GET {dir}/docs?\xe9\xff\"<>", code: 301,
		want: "Location: {dir}/docs/?%E9%FF%22%3C%3E",
	},
	{rfc: "SPEC §1: links stay inside", ask: "GET {dir}/up", code: 404, reason: "not_found"},
	{rfc: "SPEC §1: links stay inside", ask: "GET {dir}/abs", code: 404, reason: "not_found"},
	{rfc: "SPEC §1: links stay inside", ask: "GET {dir}/docs/top", code: 301, want: "Location: {dir}/"},
	{rfc: "SPEC §9: no such page", ask: "GET /..", code: 404, reason: "not_found"},
	{rfc: "SPEC §9: no such page", ask: "GET /../../etc/passwd", code: 404, reason: "not_found"},
	{rfc: "SPEC §9: no such page", ask: "GET /o/../healthz", code: 400, reason: "bad_address"},
	{rfc: "SPEC §9: no such page", ask: "GET /%68ealthz", code: 404, reason: "not_found"},
	{rfc: "SPEC §9: no such page", ask: "GET /%1b%5b31m%7f%c2%9b%e2%80%ae", code: 404, reason: "not_found"},
	{rfc: "SPEC §9: no such page", ask: "GET /.git/config", code: 404, reason: "not_found"},
	{rfc: "SPEC §9: the field", ask: "GET /b3?key={dir.b3}/docs/..%2f..", code: 400, reason: "bad_request"},
	{rfc: "SPEC §9: the field", ask: "GET /b3?key={dir.b3}/../../healthz", code: 400, reason: "bad_request"},
	{rfc: "SPEC §9: the field", ask: "GET /b3?key=//evil.example/", code: 400, reason: "bad_address", want: "Location:"},
	{
		rfc: "SPEC §9: the field", ask: "GET /b3?key={dir.b3}%0d%0aX-Evil:%201", code: 400, reason: "bad_address",
		want: "X-Evil:",
	},
	{
		rfc: "SPEC §9: the field", ask: "GET /b3?key={dir.b3}//evil.example", code: 303,
		want: "Location: {dir}/evil.example",
	},
	{rfc: "SPEC §9: uploads", ask: "HEAD /u/..%2f..", with: []string{"{put}"}, code: 404, reason: "not_found"},
	{
		rfc: "SPEC §9: uploads", ask: "HEAD /u/%30000000000000000000000000000001", with: []string{"{put}"}, code: 404,
		reason: "not_found",
	},
	{rfc: "SPEC §9: uploads", ask: "HEAD {upload}/", with: []string{"{put}"}, code: 404, reason: "not_found"},
	{
		rfc: "SPEC §9: uploads", ask: "HEAD /u/0000000000000000000000000000000A", with: []string{"{put}"}, code: 404,
		reason: "not_found",
	},
	{
		rfc: "RFC 9112 §3.2.2: absolute form",
		ask: "GET http://gateway.test{text} HTTP/1.1\r\nHost: gateway.test\r\n\r\n", code: 200,
	},
	{
		rfc: "RFC 9112 §3.2.2: another host", ask: "GET http://other.test{text} HTTP/1.1\r\nHost: gateway.test\r\n\r\n",
		code: 200,
	},
	{
		rfc: "RFC 9112 §3.2.2: no path", ask: "GET http://gateway.test HTTP/1.1\r\nHost: gateway.test\r\n\r\n",
		code: 200, holds: "~<!doctype html>",
	},
	{
		rfc: "RFC 9112 §3.2.2: of a file", ask: "GET file:///etc/passwd HTTP/1.1\r\nHost: gateway.test\r\n\r\n",
		code: 400, reason: "bad_request",
	},
	{rfc: "RFC 9112 §3.2.2: of a file", ask: "GET file://x/{text} HTTP/1.1\r\nHost: x\r\n\r\n", code: 400,
		reason: "bad_request"},
	{rfc: "RFC 9112 §3.2.2: capitals", ask: "GET HTTP://x{text} HTTP/1.1\r\nHost: x\r\n\r\n", code: 200},
	{rfc: "RFC 9112 §3.2.3: no CONNECT", ask: "GET x:80", code: 400, reason: "bad_request"},
	{rfc: "RFC 9112 §3.2.3: no CONNECT", ask: "HEAD localhost:healthz", code: 400, reason: "bad_request"},
	{
		rfc: "RFC 9110 §4.2.1: no host", ask: "GET http:healthz", code: 400, reason: "bad_request",
		holds: `~\"http:healthz\": it is no path`,
	},
	{rfc: "RFC 9110 §4.2.1: no host", ask: "GET http:/healthz", code: 400, reason: "bad_request"},
	{rfc: "RFC 9110 §4.2.1: no host", ask: "GET http:///healthz", code: 400, reason: "bad_request"},
	{rfc: "RFC 9110 §4.2.1: no host", ask: "GET http://:80/healthz", code: 400, reason: "bad_request"},
	{rfc: "RFC 9110 §4.2.1: no host", ask: "GET http://", code: 400, reason: "bad_request"},
	{rfc: "RFC 3986 §3: no path", ask: "GET mailto:a@b", code: 400, reason: "bad_request"},
	{rfc: "RFC 3986 §3: no path", ask: "OPTIONS mailto:a@b", code: 400, reason: "bad_request"},
	{rfc: "RFC 3986 §3: no path", ask: "PUT b3:{new.hex}", with: []string{"{put}"}, code: 400, reason: "bad_request"},
	{rfc: "RFC 9112 §3.2.4: OPTIONS alone", ask: "GET *", code: 400, reason: "bad_request"},
	{rfc: "Go: RFC 9112 §3.2", ask: "GET etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", code: 400, closes: true},
	{rfc: "Go: RFC 9112 §3: a space", ask: "GET /o/a b HTTP/1.1\r\nHost: x\r\n\r\n", code: 400, closes: true},
	{rfc: "long segment", ask: "GET {dir}/" + strings.Repeat("a", 256), code: 400, reason: "bad_request"},
	{rfc: "many segments", ask: "GET {dir}" + strings.Repeat("/a", 2000), code: 404, reason: "not_found"},
	{rfc: "Go: RFC 6585 §5", ask: "GET {dir}/" + strings.Repeat("a", 32<<10), code: 431, closes: true},
}

func TestConformancePaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openUpload(t)
	w.conform(t, pathTable)
}
