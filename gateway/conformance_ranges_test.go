package gateway

import (
	"fmt"
	"strings"
	"testing"

	"allium/gateway/exchange"
	"allium/gateway/server"
)

// ranged is the header of 206 to a part of {text}.
const rangedOf13 = "Accept-Ranges: bytes | ETag: {text.tag} | Content-Type: text/plain; charset=utf-8 | " +
	"Content-Range: bytes "

// noRange is the header of 416 to {text}.
const noRangeOf13 = "Content-Range: bytes */13 | Accept-Ranges: bytes | ETag: | Last-Modified:"

// rangeTable is RFC 9110 §14. What may be ignored or refused is refused: a
// client that wrote nonsense hears of it. HEAD ignores Range (§14.2).
var rangeTable = []asked{
	{
		rfc: "RFC 9110 §14.1.2", ask: "GET {text}", with: []string{"Range: bytes=0-4"}, code: 206,
		want: rangedOf13 + "0-4/13 | Content-Length: 5", holds: "=hello",
	},
	{
		rfc: "RFC 9110 §14.1.2", ask: "GET {text}", with: []string{"Range: bytes=0-0"}, code: 206,
		want: rangedOf13 + "0-0/13", holds: "=h",
	},
	{
		rfc: "RFC 9110 §14.1.2", ask: "GET {text}", with: []string{"Range: bytes=12-12"}, code: 206,
		want: rangedOf13 + "12-12/13", holds: "=\n",
	},
	{
		rfc: "RFC 9110 §14.1.2", ask: "GET {text}", with: []string{"Range: bytes=0-12"}, code: 206,
		want: rangedOf13 + "0-12/13", holds: "=" + helloText,
	},
	{
		rfc: "RFC 9110 §14.1.2", ask: "GET {text}", with: []string{"Range: bytes=7-"}, code: 206,
		want: rangedOf13 + "7-12/13", holds: "=world\n",
	},
	{
		rfc: "RFC 9110 §14.1.2: clamped", ask: "GET {text}", with: []string{"Range: bytes=7-13"}, code: 206,
		want: rangedOf13 + "7-12/13", holds: "=world\n",
	},
	{
		rfc: "RFC 9110 §14.1.2: clamped", ask: "GET {text}", with: []string{"Range: bytes=0-9223372036854775807"},
		code: 206, want: rangedOf13 + "0-12/13",
	},
	{
		rfc: "RFC 9110 §14.1.2: overflow", ask: "GET {text}", with: []string{"Range: bytes=0-9223372036854775808"},
		code: 206, want: rangedOf13 + "0-12/13",
	},
	{
		rfc: "RFC 9110 §14.1.2: overflow", ask: "GET {text}",
		with: []string{"Range: bytes=0-999999999999999999999999999999999999999999"}, code: 206,
		want: rangedOf13 + "0-12/13",
	},
	{
		rfc: "RFC 9110 §14.1.2: leading zeros", ask: "GET {text}",
		with: []string{"Range: bytes=0000000000000000000000000000007-00000000000000000000000000000008"}, code: 206,
		want: rangedOf13 + "7-8/13", holds: "=wo",
	},
	{
		rfc: "RFC 9110 §14.1.2: suffix", ask: "GET {text}", with: []string{"Range: bytes=-6"}, code: 206,
		want: rangedOf13 + "7-12/13", holds: "=world\n",
	},
	{
		rfc: "RFC 9110 §14.1.2: suffix", ask: "GET {text}", with: []string{"Range: bytes=-1"}, code: 206,
		want: rangedOf13 + "12-12/13", holds: "=\n",
	},
	{
		rfc: "RFC 9110 §14.1.2: suffix of all", ask: "GET {text}", with: []string{"Range: bytes=-13"}, code: 206,
		want: rangedOf13 + "0-12/13",
	},
	{
		rfc: "RFC 9110 §14.1.2: suffix beyond", ask: "GET {text}", with: []string{"Range: bytes=-14"}, code: 206,
		want: rangedOf13 + "0-12/13",
	},
	{
		rfc: "RFC 9110 §14.1.2: suffix overflow", ask: "GET {text}",
		with: []string{"Range: bytes=-99999999999999999999999"}, code: 206, want: rangedOf13 + "0-12/13",
	},

	{
		rfc: "RFC 9110 §14.1: unit case", ask: "GET {text}", with: []string{"Range: BYTES=0-4"}, code: 206,
		want: rangedOf13 + "0-4/13", holds: "=hello",
	},
	{
		rfc: "RFC 9110 §14.1: unit case", ask: "GET {text}", with: []string{"Range: bYtEs=-6"}, code: 206,
		want: rangedOf13 + "7-12/13",
	},
	{
		rfc: "RFC 9110 §14.2: unknown unit", ask: "GET {text}", with: []string{"Range: items=0-3"}, code: 200,
		want: "Content-Range: | Content-Length: 13", holds: "=" + helloText,
	},
	{
		rfc: "RFC 9110 §14.2: unknown unit", ask: "GET {text}", with: []string{"Range: seconds=99-"}, code: 200,
		want: "Content-Range:", holds: "=" + helloText,
	},
	{
		rfc: "RFC 9110 §14.2: unknown unit", ask: "GET {text}", with: []string{"Range: bytesx=0-3"}, code: 200,
		want: "Content-Range:",
	},
	{rfc: "RFC 9110 §14.2: no unit", ask: "GET {text}", with: []string{"Range: 0-3"},
		code: 200, want: "Content-Range:"},
	{rfc: "RFC 9110 §14.2: no set", ask: "GET {text}", with: []string{"Range: bytes"},
		code: 200, want: "Content-Range:"},
	{rfc: "RFC 9110 §14.2: empty", ask: "GET {text}", with: []string{"Range:"}, code: 200, want: "Content-Range:"},

	{
		rfc: "RFC 9110 §15.5.17", ask: "GET {text}", with: []string{"Range: bytes=13-"}, code: 416, reason: "bad_range",
		want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §15.5.17", ask: "GET {text}", with: []string{"Range: bytes=13-20"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §15.5.17: overflow", ask: "GET {text}", with: []string{"Range: bytes=18446744073709551616-"},
		code: 416, reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.1.2: no suffix", ask: "GET {text}", with: []string{"Range: bytes=-0"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.1.1: backward", ask: "GET {text}", with: []string{"Range: bytes=5-2"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes="}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes=-"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes=a-b"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes=0x0-0x4"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes=+0-4"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes=0"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes=0-4-8"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes=--1"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes=0 - 4"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes=0-4;q=1"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §14.2: invalid", ask: "GET {text}", with: []string{"Range: bytes=\u0660-\u0664"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "SPEC §9: one range", ask: "GET {text}", with: []string{"Range: bytes=0-1,3-4"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "SPEC §9: one range", ask: "GET {text}", with: []string{"Range: bytes=0-1, -1"}, code: 416,
		reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §5.3: joined", ask: "GET {text}", with: []string{"Range: bytes=0-1", "Range: bytes=3-4"},
		code: 416, reason: "bad_range", want: noRangeOf13,
	},
	{
		rfc: "RFC 9110 §5.6.1: empty elements", ask: "GET {text}", with: []string{"Range: bytes=,0-4"}, code: 206,
		want: rangedOf13 + "0-4/13",
	},
	{
		rfc: "RFC 9110 §5.6.1: empty elements", ask: "GET {text}", with: []string{"Range: bytes=0-4 , ,"}, code: 206,
		want: rangedOf13 + "0-4/13",
	},
	{
		rfc: "RFC 9110 §5.5: space around", ask: "GET {text}", with: []string{"Range: \t bytes=0-4 \t"}, code: 206,
		want: rangedOf13 + "0-4/13",
	},
	{
		rfc: "RFC 9110 §5.1: name case", ask: "GET {text}", with: []string{"rAnGe: bytes=0-4"}, code: 206,
		want: rangedOf13 + "0-4/13",
	},

	{
		rfc: "RFC 9110 §14.2: of nothing", ask: "GET {empty}", with: []string{"Range: bytes=0-"}, code: 200,
		want: "Content-Range: | Content-Length: 0", holds: "=",
	},
	{
		rfc: "RFC 9110 §14.2: of nothing", ask: "GET {empty}", with: []string{"Range: bytes=0-0"}, code: 200,
		want: "Content-Range: | Content-Length: 0", holds: "=",
	},
	{
		rfc: "RFC 9110 §14.2: of nothing", ask: "GET {empty}", with: []string{"Range: bytes=-0"}, code: 200,
		want: "Content-Range: | Content-Length: 0", holds: "=",
	},
	{
		rfc: "RFC 9110 §14.1.2: all of nothing", ask: "GET {empty}", with: []string{"Range: bytes=-5"}, code: 200,
		want: "Content-Range: | Content-Length: 0", holds: "=",
	},

	{
		rfc: "RFC 9110 §13.1.5: strong", ask: "GET {text}", with: []string{"Range: bytes=0-4", "If-Range: {text.tag}"},
		code: 206, want: rangedOf13 + "0-4/13", holds: "=hello",
	},
	{
		rfc: "RFC 9110 §13.1.5: weak", ask: "GET {text}", with: []string{"Range: bytes=0-4", "If-Range: W/{text.tag}"},
		code: 200, want: "Content-Range:", holds: "=" + helloText,
	},
	{
		rfc: "RFC 9110 §13.1.5: another", ask: "GET {text}", with: []string{"Range: bytes=0-4", "If-Range: {big.tag}"},
		code: 200, want: "Content-Range:",
	},
	{
		rfc: "RFC 9110 §13.1.5: no 416", ask: "GET {text}", with: []string{"Range: bytes=99-", "If-Range: \"x\""},
		code: 200, want: "Content-Range:", holds: "=" + helloText,
	},
	{
		rfc: "RFC 9110 §13.1.5: date", ask: "GET {text}",
		with: []string{"Range: bytes=0-4", "If-Range: Tue, 01 Jan 2030 00:00:00 GMT"}, code: 200,
		want: "Content-Range:",
	},
	{
		rfc: "RFC 9110 §13.1.5: nonsense", ask: "GET {text}", with: []string{"Range: bytes=0-4", "If-Range: yesterday"},
		code: 200, want: "Content-Range:",
	},
	{
		rfc: "RFC 9110 §13.1.5: no list", ask: "GET {text}",
		with: []string{"Range: bytes=0-4", "If-Range: {text.tag}, {text.tag}"}, code: 200, want: "Content-Range:",
	},
	{
		rfc: "RFC 9110 §13.1.5: twice", ask: "GET {text}",
		with: []string{"Range: bytes=0-4", "If-Range: {text.tag}", "If-Range: {text.tag}"}, code: 200,
		want: "Content-Range:",
	},
	{
		rfc: "RFC 9110 §13.1.5: without Range", ask: "GET {text}", with: []string{"If-Range: {text.tag}"}, code: 200,
		want: "Content-Range:",
	},
	{
		rfc: "RFC 9110 §13.1.5: holds, none satisfied", ask: "GET {text}",
		with: []string{"Range: bytes=99-", "If-Range: {text.tag}"}, code: 416, reason: "bad_range", want: noRangeOf13,
	},

	{
		rfc: "RFC 9110 §14.2: in a directory", ask: "GET {file}", with: []string{"Range: bytes=5-6"}, code: 206,
		want: "Content-Range: bytes 5-6/8 | ETag: {file.tag}", holds: "=me",
	},
	{
		rfc: "RFC 9110 §14.2: an index", ask: "GET {dir}/docs/", with: []string{"Range: bytes=0-8"}, code: 206,
		want: "ETag: {index.tag}", holds: "=<!doctype",
	},
	{
		rfc: "RFC 9110 §14.2: a listing has none", ask: "GET {dir}/", with: []string{"Range: bytes=0-8"}, code: 200,
		want: "Content-Range: | Accept-Ranges:", holds: "~<!doctype html>",
	},
	{
		rfc: "RFC 9110 §14.2: across groups", ask: "GET {big}", with: []string{"Range: bytes=65535-65536"}, code: 206,
		want: "Content-Range: bytes 65535-65536/196708 | Content-Length: 2",
	},
	{
		rfc: "RFC 9110 §14.2: the last group", ask: "GET {big}", with: []string{"Range: bytes=-1"}, code: 206,
		want: "Content-Range: bytes 196707-196707/196708",
	},
	{
		rfc: "RFC 9110 §14.2: not a 404's", ask: "GET {none}", with: []string{"Range: bytes=0-4"}, code: 404,
		reason: "not_found", want: "Content-Range:",
	},
	{
		rfc: "RFC 9110 §14.2: not a redirect's", ask: "GET {dir}/docs", with: []string{"Range: bytes=0-4"}, code: 301,
		want: "Location: {dir}/docs/ | Content-Range:",
	},

	// Of the encoding the header counts the object's bytes, docs/http.md.
	{
		rfc: "ADR 16", ask: "GET {text}?format=bao", with: []string{"Range: bytes=0-4"}, code: 206,
		want: "Content-Range: bytes 0-4/13 | {bao.type} | Cache-Control: no-store | Accept-Ranges: none | " +
			"Content-Length: 21",
	},
	{
		rfc: "ADR 16", ask: "GET {text}?format=bao", with: []string{"Range: bytes=13-"}, code: 416, reason: "bad_range",
		want: "Content-Range: bytes */13",
	},
	{
		rfc: "ADR 16", ask: "GET {text}?format=bao", with: []string{"Range: items=0-4"}, code: 200,
		want: "Content-Range: | Content-Length: 21",
	},
	{
		rfc: "ADR 16", ask: "GET {text}?format=bao", with: []string{"Range: bytes=0-4", "If-Range: \"{text.b3};bao\""},
		code: 200, want: "Content-Range: | ETag: \"{text.b3};bao\"",
	},
	{
		rfc: "ADR 16", ask: "GET {text}?format=bao&bytes=0-4", code: 200,
		want: "ETag: \"{text.b3};bao=0-4\" | Content-Range: | Content-Location: {text}?format=bao&bytes=0-4",
	},
	{
		rfc: "ADR 16", ask: "GET {text}?format=bao&bytes=0-4", with: []string{"Range: bytes=99-"}, code: 200,
		want: "ETag: \"{text.b3};bao=0-4\" | Content-Range:",
	},
	{
		rfc: "ADR 16", ask: "GET {text}?format=bao&bytes=99-", code: 416, reason: "bad_range",
		want: "Content-Range: bytes */13",
	},
	{
		rfc: "ADR 16", ask: "GET {text}?format=bao&bytes=0-1,3-4", code: 416, reason: "bad_range",
		want: "Content-Range: bytes */13",
	},
	{rfc: "ADR 16", ask: "GET {text}?format=bao&bytes=0-4&bytes=0-4", code: 400, reason: "bad_request"},
	{rfc: "ADR 16", ask: "GET {text}?bytes=0-4", code: 400, reason: "bad_request"},
	{
		rfc: "ADR 16: the old name", ask: "GET {text}?format=bao&range=0-4", code: 200,
		want: "Content-Location: {text}?format=bao&bytes=0-4",
	},
	{
		rfc: "ADR 16", ask: "GET {empty}?format=bao", code: 200, want: "Content-Length: 8",
		holds: "=\x00\x00\x00\x00\x00\x00\x00\x00",
	},
}

func TestConformanceRanges(t *testing.T) {
	t.Parallel()
	newWorld(t).conform(t, rangeTable)
}

// digits are {digits}: 1,000 bytes, of which the k-th says k modulo ten. A part
// of it costs 96 bytes beside its own.
var digits = strings.Repeat("0123456789", 100)

// several is the header of 206 to several parts of {digits}.
const several = "Content-Type: multipart/byteranges; boundary={boundary} | Content-Range: | Accept-Ranges: bytes | " +
	"ETag: {digits.tag} | Cache-Control: " + exchange.Immutable

// of1000 is the header of 206 to one part of {digits}.
const of1000 = "Content-Type: text/plain; charset=utf-8 | ETag: {digits.tag} | Content-Range: bytes "

const noRangeOf1000 = "Content-Range: bytes */1000 | Accept-Ranges: bytes | ETag: | Content-Type: " +
	"application/problem+json"

// partsOf is a body with parts of {digits}, first and last byte of each.
func partsOf(ranges ...int) string {
	var b strings.Builder
	b.WriteString("=")
	for i := 0; i < len(ranges); i += 2 {
		if i > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n"+
			"Content-Range: bytes %d-%d/1000\r\n\r\n%s", ranges[i], ranges[i+1], digits[ranges[i]:ranges[i+1]+1])
	}
	return b.String() + "\r\n--{boundary}--\r\n"
}

// multiRangeTable is for a gateway that serves up to four ranges at once.
var multiRangeTable = []asked{
	{
		rfc: "RFC 9110 §14.6", ask: "GET {digits}", with: []string{"Range: bytes=0-1,500-502"}, code: 206,
		want: several + " | Content-Length: 223", holds: partsOf(0, 1, 500, 502),
	},
	{
		rfc: "RFC 9110 §14.6", ask: "GET {digits}", with: []string{"Range: bytes=0-0,300-300,600-600,-1"}, code: 206,
		want: several, holds: partsOf(0, 0, 300, 300, 600, 600, 999, 999),
	},
	{
		rfc: "RFC 9110 §14.6: in a directory", ask: "GET {file}", with: []string{"Range: bytes=0-1,6-7"}, code: 206,
		want: "Content-Range: bytes 0-7/8 | ETag: {file.tag}", holds: "=read me\n",
	},
	{
		rfc: "RFC 9110 §15.3.7.2: order", ask: "GET {digits}", with: []string{"Range: bytes=-2, 10-12, 500-"},
		code: 206, want: several, holds: partsOf(500, 999, 10, 12),
	},
	{
		rfc: "RFC 9110 §15.3.7.2: order", ask: "GET {digits}", with: []string{"Range: bytes=900-901,300-301,0-1"},
		code: 206, want: several, holds: partsOf(900, 901, 300, 301, 0, 1),
	},
	{
		rfc: "RFC 9110 §15.3.7.2: across groups", ask: "GET {big}", with: []string{"Range: bytes=65535-65536,196707-"},
		code: 206, want: "Content-Type: multipart/byteranges; boundary={boundary} | Content-Range: | ETag: {big.tag}",
		holds: "~Content-Range: bytes 196707-196707/196708\r\n\r\n",
	},
	{
		rfc: "RFC 9110 §15.3.7.2: overlap", ask: "GET {digits}", with: []string{"Range: bytes=0-9,5-14"}, code: 206,
		want: of1000 + "0-14/1000 | Content-Length: 15", holds: "=012345678901234",
	},
	{
		rfc: "RFC 9110 §15.3.7.2: the same", ask: "GET {digits}", with: []string{"Range: bytes=5-6,5-6"}, code: 206,
		want: of1000 + "5-6/1000", holds: "=56",
	},
	{
		rfc: "RFC 9110 §15.3.7.2: adjacent", ask: "GET {digits}", with: []string{"Range: bytes=2-3,0-1"}, code: 206,
		want: of1000 + "0-3/1000", holds: "=0123",
	},
	{
		rfc: "RFC 9110 §15.3.7.2: less between than a part costs", ask: "GET {digits}",
		with: []string{"Range: bytes=0-1,97-98"}, code: 206, want: of1000 + "0-98/1000 | Content-Length: 99",
	},
	{
		rfc: "RFC 9110 §15.3.7.2: as much between", ask: "GET {digits}", with: []string{"Range: bytes=0-1,98-98"},
		code: 206, want: several, holds: partsOf(0, 1, 98, 98),
	},
	{
		rfc: "RFC 9110 §15.3.7.2: one bridges two", ask: "GET {digits}",
		with: []string{"Range: bytes=0-9,800-801,200-209,10-199"}, code: 206, want: several,
		holds: partsOf(0, 209, 800, 801),
	},
	{
		rfc: "RFC 9110 §15.3.7.2: one satisfiable", ask: "GET {digits}", with: []string{"Range: bytes=1000-,3-4"},
		code: 206, want: of1000 + "3-4/1000 | Content-Length: 2", holds: "=34",
	},
	{
		rfc: "RFC 9110 §15.3.7.2: some satisfiable", ask: "GET {digits}",
		with: []string{"Range: bytes=3-4,2000-3000,-0,800-800"}, code: 206, want: several,
		holds: partsOf(3, 4, 800, 800),
	},
	{
		rfc: "RFC 9110 §14.1.2: clamped", ask: "GET {digits}",
		with: []string{"Range: bytes=0-0,999-99999999999999999999999"}, code: 206, want: several,
		holds: partsOf(0, 0, 999, 999),
	},
	{
		rfc: "RFC 9110 §15.5.17: none satisfiable", ask: "GET {digits}", with: []string{"Range: bytes=1000-,2000-,-0"},
		code: 416, reason: "bad_range", want: noRangeOf1000,
	},
	{
		rfc: "RFC 9110 §14.2: abuse, too many", ask: "GET {digits}",
		with: []string{"Range: bytes=0-0,200-200,400-400,600-600,800-800"}, code: 416, reason: "bad_range",
		want: noRangeOf1000,
	},
	{
		rfc: "RFC 9110 §14.2: abuse, too many that select nothing", ask: "GET {digits}",
		with: []string{"Range: bytes=0-0,1000-,1000-,1000-,1000-"}, code: 416, reason: "bad_range", want: noRangeOf1000,
	},
	{
		rfc: "RFC 9110 §14.2: abuse, more than there is", ask: "GET {digits}", with: []string{"Range: bytes=0-,0-"},
		code: 416, reason: "bad_range", want: noRangeOf1000,
	},
	{
		rfc: "RFC 9110 §14.2: abuse, more than there is", ask: "GET {digits}", with: []string{"Range: bytes=0-999,5-5"},
		code: 416, reason: "bad_range", want: noRangeOf1000,
	},
	{
		rfc: "RFC 9110 §14.2: all there is", ask: "GET {digits}", with: []string{"Range: bytes=500-,0-499"}, code: 206,
		want: of1000 + "0-999/1000", holds: "=" + digits,
	},
	{
		rfc: "RFC 9110 §14.2: one of them invalid", ask: "GET {digits}", with: []string{"Range: bytes=0-0,x"},
		code: 416, reason: "bad_range", want: noRangeOf1000,
	},
	{
		rfc: "RFC 9110 §14.1.1: one of them backward", ask: "GET {digits}", with: []string{"Range: bytes=0-0,5-2"},
		code: 416, reason: "bad_range", want: noRangeOf1000,
	},
	{
		rfc: "RFC 9110 §5.3: joined, which is no list of ranges", ask: "GET {digits}",
		with: []string{"Range: bytes=0-1", "Range: bytes=500-501"}, code: 416, reason: "bad_range", want: noRangeOf1000,
	},
	{
		rfc: "RFC 9110 §5.6.1: empty elements", ask: "GET {digits}", with: []string{"Range: bytes=, 0-0 ,,\t500-500 ,"},
		code: 206, want: several, holds: partsOf(0, 0, 500, 500),
	},
	{
		rfc: "RFC 9110 §14.2: unknown unit", ask: "GET {digits}", with: []string{"Range: items=0-0,500-500"}, code: 200,
		want: "Content-Range: | Content-Length: 1000", holds: "=" + digits,
	},
	{
		rfc: "RFC 9110 §14.1.2: all of nothing", ask: "GET {empty}", with: []string{"Range: bytes=0-0,-5"}, code: 200,
		want: "Content-Range: | Content-Length: 0", holds: "=",
	},
	{
		rfc: "RFC 9110 §14.2: of nothing", ask: "GET {empty}", with: []string{"Range: bytes=0-0,5-"}, code: 200,
		want: "Content-Range: | Content-Length: 0", holds: "=",
	},
	{
		rfc: "RFC 9110 §13.1.5: strong", ask: "GET {digits}",
		with: []string{"Range: bytes=0-0,500-500", "If-Range: {digits.tag}"}, code: 206, want: several,
		holds: partsOf(0, 0, 500, 500),
	},
	{
		rfc: "RFC 9110 §13.1.5: weak", ask: "GET {digits}",
		with: []string{"Range: bytes=0-0,500-500", "If-Range: W/{digits.tag}"}, code: 200,
		want: "Content-Range: | Content-Type: text/plain; charset=utf-8", holds: "=" + digits,
	},
	{
		rfc: "RFC 9110 §13.2.2: fresh", ask: "GET {digits}",
		with: []string{"Range: bytes=0-0,500-500", "If-None-Match: {digits.tag}"}, code: 304,
		want: "Content-Type: | Content-Range: | ETag: {digits.tag}",
	},
	{
		rfc: "RFC 9110 §13.2.2: failed", ask: "GET {digits}",
		with: []string{"Range: bytes=0-0,500-500", "If-Match: \"x\""}, code: 412, reason: "precondition",
		want: "Content-Range:",
	},
	{
		rfc: "RFC 9110 §14.2: not a 404's", ask: "GET {none}", with: []string{"Range: bytes=0-0,500-500"}, code: 404,
		reason: "not_found", want: "Content-Range:",
	},
	{
		rfc: "ADR 16: an encoding is of one", ask: "GET {digits}?format=bao",
		with: []string{"Range: bytes=0-0,500-500"}, code: 416, reason: "bad_range", want: "Content-Range: bytes */1000",
	},
	{
		rfc: "ADR 16: an encoding is of one", ask: "GET {digits}?format=bao&bytes=0-0,500-500", code: 416,
		reason: "bad_range", want: "Content-Range: bytes */1000",
	},
}

func TestConformanceMultiRange(t *testing.T) {
	t.Parallel()
	newWorld(t, func(c *Config, _ *server.AdminConfig) { c.Content.MultiRange = 4 }).conform(t, multiRangeTable)
}
