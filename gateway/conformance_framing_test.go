package gateway

import (
	"strings"
	"testing"
)

// second is a request hidden in what another one carries. It must never be
// answered.
const second = "GET /smuggled HTTP/1.1\r\nHost: x\r\nX-Corr-ID: smuggled\r\n\r\n"

// put begins an upload by raw bytes.
const putHead = "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\n"

// framingTable is RFC 9112: where a request ends, told in every way that two
// readers of one connection could understand differently. Bytes that no reader
// here must take for a request are the constant second.
var framingTable = []asked{
	{
		rfc: "RFC 9112 §7.1", ask: putHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", code: 201,
		want: "Location: {new}", closes: true,
	},
	{
		rfc:  "RFC 9112 §6.3: both",
		ask:  putHead + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + second,
		code: 200, want: "Location: {new}", closes: true,
	},
	{
		rfc:  "RFC 9112 §6.3: both",
		ask:  putHead + "Transfer-Encoding: chunked\r\nContent-Length: 15\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + second,
		code: 200, closes: true,
	},
	{
		rfc: "RFC 9112 §6.3: both, of a read",
		ask: "GET {text} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
			second,
		code: 413, reason: "body_cap", closes: true,
	},
	{
		rfc: "RFC 9112 §6.3: both, of an error",
		ask: "GET /nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n" +
			second,
		code: 404, reason: "not_found", closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.1: not known",
		ask: putHead + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + second, code: 501, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.1: not known", ask: putHead + "Transfer-Encoding: identity\r\n\r\n" + second, code: 501,
		closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.1: not the last",
		ask: putHead + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + second, code: 501, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.1: twice", ask: putHead + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + second,
		code: 501, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.1: twice",
		ask: putHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second, code: 501,
		closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.1: twice",
		ask: putHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + second, code: 501,
		closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.1: junk", ask: putHead + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + second,
		code: 501, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.1: junk", ask: putHead + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n" + second,
		code: 501, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.1: junk", ask: putHead + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" + second,
		code: 501, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.1: junk", ask: putHead + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + second,
		code: 400, closes: true,
	},
	{rfc: "Go: RFC 9112 §6.1: empty", ask: putHead + "Transfer-Encoding:\r\n\r\n" + second, code: 501, closes: true},
	{
		rfc: "RFC 9112 §7: case", ask: putHead + "Transfer-Encoding: ChUnKeD\r\n\r\n0\r\n\r\n" + second, code: 200,
		want: "Location: {empty}", closes: true,
	},
	{
		rfc: "Go: RFC 9112 §5.1: a space before the colon",
		ask: putHead + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + second, code: 400, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §5.1: a space before the colon",
		ask: "GET {text} HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n\r\n" + second, code: 400, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §5.1: a tab before the colon", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nX-A\t: b\r\n\r\n",
		code: 400, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §2.2: a space before the first name",
		ask: "GET {text} HTTP/1.1\r\n Host: x\r\nX-A: b\r\n\r\n", code: 400, closes: true,
	},
	{
		rfc:  "RFC 9112 §6.1: in HTTP/1.0",
		ask:  "GET {text} HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + "40\r\n" + second,
		code: 200, closes: true,
	},
	{
		rfc: "RFC 9112 §6.1: in HTTP/1.0",
		ask: "GET {text} HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + second, code: 200,
		closes: true,
	},
	{
		rfc: "RFC 9112 §6.1: in HTTP/1.0",
		ask: "POST /o HTTP/1.0\r\n{put}\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n" +
			"Content-Length: 5\r\n\r\nhello" + second,
		code: 200, closes: true,
	},

	{
		rfc: "Go: RFC 9112 §6.3: they differ",
		ask: putHead + "Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello" + second, code: 400, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.3: a list", ask: putHead + "Content-Length: 0, 5\r\n\r\nhello" + second, code: 400,
		closes: true,
	},
	{
		rfc: "Go: RFC 9112 §6.3: a list of one", ask: putHead + "Content-Length: 5, 5\r\n\r\nhello",
		code: 400, closes: true,
	},
	{
		rfc: "RFC 9112 §6.3: told twice the same", ask: putHead + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		code: 200, want: "Location: {new}",
	},
	{rfc: "Go: RFC 9110 §8.6: negative", ask: putHead + "Content-Length: -1\r\n\r\n" + second, code: 400, closes: true},
	{
		rfc: "Go: RFC 9110 §8.6: a plus", ask: putHead + "Content-Length: +5\r\n\r\nhello" + second,
		code: 400, closes: true,
	},
	{
		rfc: "Go: RFC 9110 §8.6: hexadecimal", ask: putHead + "Content-Length: 0x5\r\n\r\nhello" + second, code: 400,
		closes: true,
	},
	{
		rfc: "Go: RFC 9110 §8.6: a fraction", ask: putHead + "Content-Length: 5.0\r\n\r\nhello" + second, code: 400,
		closes: true,
	},
	{
		rfc: "Go: RFC 9110 §8.6: underscores", ask: putHead + "Content-Length: 1_0\r\n\r\nhello" + second, code: 400,
		closes: true,
	},
	{
		rfc: "Go: RFC 9110 §8.6: a space within", ask: putHead + "Content-Length: 5 5\r\n\r\nhello" + second, code: 400,
		closes: true,
	},
	{
		rfc: "Go: RFC 9110 §8.6: over 63 bits",
		ask: putHead + "Content-Length: 9223372036854775808\r\n\r\nhello" + second, code: 400, closes: true,
	},
	{
		rfc: "Go: RFC 9110 §8.6: over 64 bits",
		ask: putHead + "Content-Length: 18446744073709551621\r\n\r\nhello" + second, code: 400, closes: true,
	},
	{rfc: "Go: RFC 9110 §8.6: empty", ask: putHead + "Content-Length:\r\n\r\n" + second, code: 400, closes: true},
	{
		rfc: "RFC 9110 §8.6: leading zeros", ask: putHead + "Content-Length: 0000005\r\n\r\nhello", code: 200,
		want: "Location: {new}",
	},
	{
		rfc: "RFC 9110 §8.6: more than there can be",
		ask: "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775807\r\n\r\n" + second, code: 405,
		reason: "method", closes: true,
	},
	{
		rfc: "RFC 9112 §6.3: no body told, none there", ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\n\r\n", code: 200,
		want: "Location: {empty}",
	},

	{
		rfc: "RFC 9110 §9.3.1: a body of GET",
		ask: "GET {text} HTTP/1.1\r\nHost: x\r\nContent-Length: 56\r\n\r\n" + second, code: 413, reason: "body_cap",
		closes: true,
	},
	{
		rfc: "RFC 9110 §9.3.1: a body of GET",
		ask: "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 56\r\n\r\n" + second, code: 413, reason: "body_cap",
		closes: true,
	},
	{
		rfc:  "RFC 9110 §9.3.1: a body of GET",
		ask:  "GET {text} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n38\r\n" + second + "\r\n0\r\n\r\n",
		code: 413, reason: "body_cap", closes: true,
	},
	{
		rfc: "RFC 9110 §9.3.2: a body of HEAD",
		ask: "HEAD {text} HTTP/1.1\r\nHost: x\r\nContent-Length: 56\r\n\r\n" + second, code: 413, reason: "body_cap",
		closes: true,
	},
	{
		rfc: "RFC 9110 §9.3.7: a body of OPTIONS",
		ask: "OPTIONS {text} HTTP/1.1\r\nHost: x\r\nContent-Length: 56\r\n\r\n" + second, code: 413, reason: "body_cap",
		closes: true,
	},
	{
		rfc: "RFC 9110 §9.3.8: a body of TRACE",
		ask: "TRACE {text} HTTP/1.1\r\nHost: x\r\nContent-Length: 56\r\n\r\n" + second, code: 405, reason: "method",
		closes: true,
	},
	{
		rfc: "RFC 9112 §6.3: refused, the body unread",
		ask: "POST /o HTTP/1.1\r\nHost: x\r\nContent-Length: 56\r\n\r\n" + second, code: 401, reason: "unauthenticated",
		closes: true,
	},
	{
		rfc: "RFC 9112 §6.3: refused, the body unread",
		ask: putHead + "Content-Encoding: br\r\nContent-Length: 56\r\n\r\n" + second, code: 415, reason: "unsupported",
		closes: true,
	},
	{
		rfc: "RFC 9112 §6.3: here, the body unread",
		ask: "PUT {text} HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Length: 56\r\n\r\n" + second, code: 200,
		want: "Location: {text}", closes: true,
	},
	{rfc: "RFC 9112 §6.3: a body is data", ask: putHead + "Content-Length: 56\r\n\r\n" + second, code: 201},
	{
		rfc: "RFC 9112 §6.3: not the address's",
		ask: "PUT {none} HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Length: 56\r\n\r\n" + second, code: 409,
		reason: "bad_digest",
	},

	{
		rfc: "RFC 9112 §7.1.1: extensions",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n" + second, code: 200,
		want: "Location: {new}", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1: capital digits, zeros",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n00005\r\nhello\r\n000\r\n\r\n" + second, code: 200,
		want: "Location: {new}", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1: no hexadecimal",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n5g\r\nhello\r\n0\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1: 0x", ask: putHead + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n" + second,
		code: 400, reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1: negative",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1: a plus",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1: empty", ask: putHead + "Transfer-Encoding: chunked\r\n\r\n\r\nhello\r\n0\r\n\r\n" + second,
		code: 400, reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1: overflow",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1: longer than it says",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1: no line end",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §2.2: a bare LF in chunks",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §2.2: a bare LF after a chunk",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1.1: a bare LF in an extension",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n5;\nhello\r\n0\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1.1: a bare CR in an extension",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n5;a\rb\r\nhello\r\n0\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1.1: endless extensions",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("x", 8<<10) + "\r\nhello\r\n0\r\n\r\n" +
			second,
		code: 400, reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9112 §7.1.2: trailers say nothing",
		ask: putHead + "Transfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n5\r\nhello\r\n0\r\nX-Checksum: 1\r\n" +
			"Authorization: Bearer x\r\nContent-Length: 56\r\n\r\n" + second,
		code: 200, want: "Location: {new}", closes: true,
	},
	{
		rfc:  "Go: RFC 9110 §6.5.1: what no trailer may be",
		ask:  putHead + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + second,
		code: 400, closes: true,
	},
	{
		rfc: "RFC 9112 §7.1.2: a malformed trailer",
		ask: putHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nno colon\r\n\r\n" + second, code: 400,
		reason: "bad_request", closes: true,
	},

	{rfc: "RFC 9112 §5.2: a folded line", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nX-A: b\r\n  c\r\n\r\n", code: 200},
	{
		rfc: "RFC 9112 §5.2: a folded length", ask: putHead + "Content-Length:\r\n 5\r\n\r\nhello", code: 200,
		want: "Location: {new}",
	},
	{
		rfc: "RFC 9112 §5.2: a folded encoding",
		ask: putHead + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + second, code: 200, closes: true,
	},
	{rfc: "RFC 9112 §2.2: bare LF", ask: "GET {text} HTTP/1.1\nHost: x\n\n", code: 200, holds: "=" + helloText},
	{
		rfc: "Go: RFC 9112 §2.2: bare CR", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nX-A: b\rX-C: d\r\n\r\n" + second,
		code: 400, closes: true,
	},
	{
		rfc: "Go: RFC 9112 §2.2: bare CR in the first line", ask: "GET {text}\rx HTTP/1.1\r\nHost: x\r\n\r\n" + second,
		code: 400, closes: true,
	},
	{
		rfc: "Go: RFC 9110 §5.5: NUL", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nX-A: b\x00c\r\n\r\n" + second, code: 400,
		closes: true,
	},
	{rfc: "Go: RFC 9110 §5.5: NUL", ask: "GET {text}\x00 HTTP/1.1\r\nHost: x\r\n\r\n" + second, code: 400,
		closes: true},
	{
		rfc: "Go: RFC 9110 §5.5: DEL", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nX-A: b\x7f\r\n\r\n" + second, code: 400,
		closes: true,
	},
	{
		rfc: "Go: RFC 9110 §5.6.2: no token", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nX(A: b\r\n\r\n" + second,
		code: 400, closes: true,
	},
	{
		rfc: "Go: RFC 9110 §5.6.2: no name", ask: "GET {text} HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n" + second, code: 400,
		closes: true,
	},
	{
		rfc: "Go: RFC 9112 §5: no colon", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nX-A\r\n\r\n" + second, code: 400,
		closes: true,
	},
	{
		rfc: "Go: RFC 9112 §2.2: an empty line first", ask: "\r\nGET {text} HTTP/1.1\r\nHost: x\r\n\r\n", code: 400,
		closes: true,
	},
	{rfc: "RFC 9110 §5.5: more than ASCII", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nX-A: \xe9\xff\r\n\r\n", code: 200},

	{
		rfc: "RFC 9112 §2.3: HTTP/1.0", ask: "GET {text} HTTP/1.0\r\n\r\n", code: 200, want: "Content-Length: 13",
		holds: "=" + helloText, closes: true,
	},
	{
		rfc: "RFC 9112 §9.3: HTTP/1.0 ends", ask: "GET {text} HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
		code: 200, closes: true,
	},
	{
		rfc: "SPEC §9: no length, no end", ask: "GET {dir}/ HTTP/1.0\r\n\r\n", code: 200,
		want: "Transfer-Encoding: | Content-Encoding: | Content-Type: text/html; charset=utf-8", closes: true,
	},
	{rfc: "Go: RFC 9112 §2.3: HTTP/0.9", ask: "GET {text}\r\n", code: 400, closes: true},
	{rfc: "Go: RFC 9110 §15.6.6", ask: "GET {text} HTTP/3.0\r\nHost: x\r\n\r\n", code: 505, closes: true},
	{rfc: "Go: RFC 9110 §15.6.6", ask: "GET {text} HTTP/2.0\r\nHost: x\r\n\r\n", code: 505, closes: true},
	{rfc: "RFC 9110 §2.5: a minor version", ask: "GET {text} HTTP/1.2\r\nHost: x\r\n\r\n", code: 200},
	{rfc: "Go: RFC 9112 §2.3", ask: "GET {text} HTTP/1\r\nHost: x\r\n\r\n", code: 400, closes: true},
	{rfc: "Go: RFC 9112 §2.3", ask: "GET {text} HTTP/01.1\r\nHost: x\r\n\r\n", code: 400, closes: true},
	{rfc: "Go: RFC 9112 §2.3: case", ask: "GET {text} http/1.1\r\nHost: x\r\n\r\n", code: 400, closes: true},
	{rfc: "Go: RFC 9112 §3: two spaces", ask: "GET  {text} HTTP/1.1\r\nHost: x\r\n\r\n", code: 400, closes: true},
	{
		rfc: "RFC 9113 §3.4: h2 is not spoken in the clear", ask: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + second,
		code: 400, reason: "bad_request", closes: true,
	},
	{
		rfc: "RFC 9110 §7.8: no upgrade",
		ask: "GET {text} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" +
			"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		code: 200, want: "Upgrade:",
	},
	{
		rfc: "RFC 9112 §9.6", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + second, code: 200,
		closes: true,
	},

	{rfc: "Go: RFC 9112 §3.2: no Host", ask: "GET {text} HTTP/1.1\r\n\r\n" + second, code: 400, closes: true},
	{rfc: "Go: RFC 9112 §3.2: two", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", code: 400, closes: true},
	{rfc: "Go: RFC 9112 §3.2: two", ask: "GET {text} HTTP/1.1\r\nHost: x\r\nhOST: y\r\n\r\n", code: 400, closes: true},
	{rfc: "RFC 9112 §3.2: empty", ask: "GET {text} HTTP/1.1\r\nHost:\r\n\r\n", code: 400, reason: "bad_request"},
	{
		rfc: "RFC 9112 §3.2: empty, of what waits for nothing", ask: "GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
		code: 400, reason: "bad_request",
	},
	{rfc: "Go: RFC 3986 §3.2.2: odd", ask: "GET {text} HTTP/1.1\r\nHost: a b\r\n\r\n", code: 400, closes: true},
	{rfc: "Go: RFC 3986 §3.2.2: odd", ask: "GET {text} HTTP/1.1\r\nHost: x/../y\r\n\r\n", code: 400, closes: true},
	{rfc: "Go: RFC 3986 §3.2.2: odd", ask: "GET {text} HTTP/1.1\r\nHost: \xff\r\n\r\n", code: 400, closes: true},
	{rfc: "RFC 9110 §7.2: any name is ours", ask: "GET {text} HTTP/1.1\r\nHost: [::1]:99999\r\n\r\n", code: 200},

	{
		rfc: "Go: RFC 6585 §5: one line too long",
		ask: "GET {text} HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 32<<10) + "\r\n\r\n", code: 431,
		closes: true,
	},
	{
		rfc: "Go: RFC 6585 §5: too many lines",
		ask: "GET {text} HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: b\r\n", 4<<10) + "\r\n", code: 431,
		closes: true,
	},
	{
		rfc: "RFC 6585 §5: few enough",
		ask: "GET {text} HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: b\r\n", 200) + "\r\n", code: 200,
	},

	{rfc: "no header is made of a request", ask: "GET {text}", with: []string{"X-Corr-ID: a\tb"}, code: 200},
	{
		rfc: "no header is made of a request", ask: "GET {text}", with: []string{"X-Corr-ID: a%0d%0aX-Evil: 1"},
		code: 200, want: "X-Evil:",
	},
	{
		rfc: "no header is made of a request", ask: "GET {text}", with: []string{"X-Corr-ID: good-1"}, code: 200,
		want: "X-Corr-Id: good-1",
	},
	{
		rfc: "no header is made of a request", ask: "GET {dir}/docs?%0d%0aX-Evil:%201", code: 301,
		want: "Location: {dir}/docs/?%0d%0aX-Evil:%201 | X-Evil:",
	},
	{
		rfc: "no header is made of a request", ask: "GET {text}", with: []string{"Request-Timeout: 1\xff"}, code: 400,
		reason: "bad_request",
	},
	{
		rfc: "RFC 9110 §15.5.1", ask: "GET {text}", with: []string{"Request-Timeout: soon"}, code: 400,
		reason: "bad_request",
	},
	{
		rfc: "RFC 9110 §15.5.1", ask: "GET {text}", with: []string{"Request-Timeout: 1", "Request-Timeout: 2"},
		code: 400, reason: "bad_request",
	},
}

func TestConformanceFraming(t *testing.T) {
	t.Parallel()
	if len(second) != 0x38 {
		t.Fatalf("the second request has %d bytes", len(second)) // which the table says in digits
	}
	newWorld(t).conform(t, framingTable)
}
