package gateway

import "testing"

// fresh is the header of a 304 (RFC 9110 §15.4.5).
const freshText = "ETag: {text.tag} | Cache-Control: public, max-age=31536000, immutable | Vary: Accept | " +
	"Content-Type: | Content-Length: | Content-Range:"

// conditionTable is RFC 9110 §13.
var conditionTable = []asked{
	{
		rfc: "RFC 9110 §13.1.2", ask: "GET {text}", with: []string{"If-None-Match: {text.tag}"}, code: 304,
		want: freshText, holds: "=",
	},
	{
		rfc: "RFC 9110 §13.1.2: weakly", ask: "GET {text}", with: []string{"If-None-Match: W/{text.tag}"}, code: 304,
		want: freshText,
	},
	{rfc: "RFC 9110 §13.1.2: any", ask: "GET {text}", with: []string{"If-None-Match: *"}, code: 304, want: freshText},
	{
		rfc: "RFC 9110 §13.1.2: list", ask: "GET {text}", with: []string{`If-None-Match: "x", W/"y" ,{text.tag}`},
		code: 304, want: freshText,
	},
	{
		rfc: "RFC 9110 §5.3: joined", ask: "GET {text}",
		with: []string{`If-None-Match: "x"`, "If-None-Match: {text.tag}"}, code: 304, want: freshText,
	},
	{
		rfc: "RFC 9110 §5.6.1: empty elements", ask: "GET {text}", with: []string{"If-None-Match: , ,{text.tag},"},
		code: 304, want: freshText,
	},
	{
		rfc: "RFC 9110 §13.1.2: another", ask: "GET {text}", with: []string{"If-None-Match: {big.tag}"}, code: 200,
		holds: "=" + helloText,
	},
	{rfc: "RFC 9110 §8.8.3: comma within", ask: "GET {text}",
		with: []string{`If-None-Match: "a,{text.b3}"`}, code: 200},
	{rfc: "RFC 9110 §8.8.3: no quotes", ask: "GET {text}", with: []string{"If-None-Match: {text.b3}"}, code: 200},
	{rfc: "RFC 9110 §8.8.3: half quoted", ask: "GET {text}", with: []string{`If-None-Match: "{text.b3}`}, code: 200},
	{rfc: "RFC 9110 §8.8.3: w is not W", ask: "GET {text}", with: []string{"If-None-Match: w/{text.tag}"}, code: 200},
	{rfc: "RFC 9110 §8.8.3.2: case", ask: "GET {text}", with: []string{`If-None-Match: "b3:{text.HEX}"`}, code: 200},
	{rfc: "RFC 9110 §13.1.2: empty", ask: "GET {text}", with: []string{"If-None-Match:"}, code: 200},
	{
		rfc: "RFC 9110 §13.1.2: nothing there", ask: "GET {none}", with: []string{"If-None-Match: *"}, code: 404,
		reason: "not_found",
	},
	{
		rfc: "RFC 9111 §4.3.2: known by its name", ask: "GET {none}", with: []string{"If-None-Match: {none.tag}"},
		code: 304, want: "ETag: {none.tag}",
	},
	{
		rfc: "RFC 9110 §13.1.2: of nothing", ask: "GET {empty}", with: []string{"If-None-Match: {empty.tag}"},
		code: 304, want: "ETag: {empty.tag}",
	},

	{
		rfc: "RFC 9110 §13.1.1", ask: "GET {text}", with: []string{"If-Match: {text.tag}"}, code: 200,
		holds: "=" + helloText,
	},
	{rfc: "RFC 9110 §13.1.1: any", ask: "GET {text}", with: []string{"If-Match: *"}, code: 200},
	{rfc: "RFC 9110 §13.1.1: list", ask: "GET {text}", with: []string{`If-Match: "x", {text.tag}`}, code: 200},
	{
		rfc: "RFC 9110 §13.1.1: weakly", ask: "GET {text}", with: []string{"If-Match: W/{text.tag}"}, code: 412,
		reason: "precondition", want: "ETag:",
	},
	{
		rfc: "RFC 9110 §13.1.1: another", ask: "GET {text}", with: []string{`If-Match: "x"`}, code: 412,
		reason: "precondition",
	},
	{
		rfc: "RFC 9110 §13.1.1: nonsense", ask: "GET {text}", with: []string{"If-Match: x"}, code: 412,
		reason: "precondition",
	},
	{rfc: "RFC 9110 §13.1.1: empty", ask: "GET {text}", with: []string{"If-Match:"}, code: 412, reason: "precondition"},
	{
		rfc: "RFC 9110 §13.2.1: not of 404", ask: "GET {none}", with: []string{`If-Match: "x"`}, code: 404,
		reason: "not_found",
	},

	{
		rfc: "RFC 9110 §13.2.2: If-Match first", ask: "GET {text}",
		with: []string{`If-Match: "x"`, "If-None-Match: {text.tag}"}, code: 412, reason: "precondition",
	},
	{
		rfc: "RFC 9110 §13.2.2: both", ask: "GET {text}",
		with: []string{"If-Match: {text.tag}", "If-None-Match: {text.tag}"}, code: 304, want: freshText,
	},
	{
		rfc: "RFC 9110 §13.2.2: 304 before 206", ask: "GET {text}",
		with: []string{"If-None-Match: {text.tag}", "Range: bytes=0-4"}, code: 304, want: freshText,
	},
	{
		rfc: "RFC 9110 §13.2.2: 304 before 416", ask: "GET {text}",
		with: []string{"If-None-Match: {text.tag}", "Range: bytes=99-"}, code: 304, want: freshText,
	},
	{
		rfc: "RFC 9110 §13.2.2: 412 before 416", ask: "GET {text}", with: []string{`If-Match: "x"`, "Range: bytes=99-"},
		code: 412, reason: "precondition", want: "Content-Range:",
	},
	{
		rfc: "RFC 9110 §13.2.2: 206 when stale", ask: "GET {text}",
		with: []string{`If-None-Match: "x"`, "Range: bytes=0-4"}, code: 206, holds: "=hello",
	},
	{
		rfc: "RFC 9110 §13.2.2: 206 when it matches", ask: "GET {text}",
		with: []string{"If-Match: {text.tag}", "Range: bytes=0-4", "If-Range: {text.tag}"}, code: 206, holds: "=hello",
	},
	{
		rfc: "RFC 9110 §13.1.3: a constant date", ask: "GET {text}",
		with: []string{"If-Modified-Since: Tue, 01 Jan 2030 00:00:00 GMT"}, code: 304,
		want: "Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT",
	},
	{
		rfc: "RFC 9110 §13.1.4: an earlier date", ask: "GET {text}",
		with: []string{"If-Unmodified-Since: Tue, 01 Jan 1980 00:00:00 GMT"}, code: 412, reason: "precondition",
	},
	{
		rfc: "RFC 9110 §13.1.4: before If-None-Match", ask: "GET {text}",
		with: []string{"If-Unmodified-Since: Tue, 01 Jan 1980 00:00:00 GMT", "If-None-Match: {text.tag}"},
		code: 412, reason: "precondition",
	},
	{
		rfc: "RFC 9110 §13.1.4: the date itself", ask: "GET {text}",
		with: []string{"If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT"}, code: 200,
	},
	{
		rfc: "RFC 9110 §13.1.4: no date", ask: "GET {text}",
		with: []string{"If-Unmodified-Since: yesterday"}, code: 200,
	},
	{
		rfc: "RFC 9110 §13.1.4: If-Match counts", ask: "GET {text}",
		with: []string{"If-Unmodified-Since: Tue, 01 Jan 1980 00:00:00 GMT", "If-Match: {text.tag}"}, code: 200,
	},
	{
		rfc: "RFC 9110 §13.1.4: not of a range", ask: "GET {text}",
		with: []string{"If-Unmodified-Since: Tue, 01 Jan 1980 00:00:00 GMT", "Range: bytes=0-4"},
		code: 412, reason: "precondition", want: "Content-Range:",
	},
	{
		rfc: "RFC 9110 §13.1.5: the date", ask: "GET {text}",
		with: []string{"If-Range: Sat, 01 Jan 2000 00:00:00 GMT", "Range: bytes=0-4"}, code: 206, holds: "=hello",
	},
	{
		rfc: "RFC 9110 §13.1.5: a later date is no match", ask: "GET {text}",
		with: []string{"If-Range: Tue, 01 Jan 2030 00:00:00 GMT", "Range: bytes=0-4"}, code: 200,
	},
	{
		rfc: "RFC 9110 §13.1.5: an earlier date is no match", ask: "GET {text}",
		with: []string{"If-Range: Tue, 01 Jan 1980 00:00:00 GMT", "Range: bytes=0-4"}, code: 200,
	},
	{
		rfc: "RFC 9110 §13.1.3: tag before date", ask: "GET {text}",
		with: []string{`If-None-Match: "x"`, "If-Modified-Since: Tue, 01 Jan 2030 00:00:00 GMT"}, code: 200,
	},

	{
		rfc: "RFC 9110 §13.2.1: not of a redirect", ask: "GET {dir}/docs", with: []string{"If-None-Match: *"},
		code: 301, want: "Location: {dir}/docs/",
	},
	{
		rfc: "RFC 9110 §13.2.1: not of a redirect", ask: "GET /o/b3:{text.HEX}", with: []string{`If-Match: "x"`},
		code: 308, want: "Location: {text}",
	},
	{
		rfc: "RFC 9110 §13.1.2: a file's own", ask: "GET {file}", with: []string{"If-None-Match: {file.tag}"},
		code: 304, want: "ETag: {file.tag}",
	},
	{
		rfc: "RFC 9110 §13.1.2: not its directory's", ask: "GET {file}", with: []string{`If-None-Match: "{dir.b3}"`},
		code: 200,
	},
	{rfc: "RFC 9110 §13.1.1: a listing is weak", ask: "GET {dir}/", with: []string{"If-Match: *"}, code: 200},
	{
		rfc: "RFC 9110 §13.1.2: a listing", ask: "GET {dir}/", with: []string{"If-None-Match: *"}, code: 304,
		want: "Cache-Control: no-cache",
	},
	{
		rfc: "RFC 9111 §5.2.1.7", ask: "GET {remote}", with: []string{"Cache-Control: only-if-cached"}, code: 412,
		reason: "precondition",
	},
	{rfc: "RFC 9111 §5.2.1.7", ask: "GET {text}",
		with: []string{"Cache-Control: max-stale, ONLY-IF-CACHED"}, code: 200},
	{
		rfc: "RFC 9111 §5.2.1.4", ask: "GET {text}",
		with: []string{"Cache-Control: no-cache", "Pragma: no-cache", "If-None-Match: {text.tag}"}, code: 304,
		want: freshText,
	},
	{
		rfc: "RFC 9110 §8.8.3.3: per representation", ask: "GET {text}?format=bao",
		with: []string{"If-None-Match: {text.tag}"}, code: 200, want: `ETag: "{text.b3};bao"`,
	},
	{
		rfc: "RFC 9110 §8.8.3.3: per representation", ask: "GET {text}?format=bao",
		with: []string{`If-None-Match: "{text.b3};bao"`}, code: 304, want: `ETag: "{text.b3};bao"`,
	},
	{
		rfc: "RFC 9110 §8.8.3.3: per representation", ask: "GET {text}",
		with: []string{`If-None-Match: "{text.b3};bao"`}, code: 200, want: "ETag: {text.tag}",
	},
	{
		rfc: "RFC 9110 §13.1.1", ask: "GET {text}?format=bao", with: []string{"If-Match: {text.tag}"}, code: 412,
		reason: "precondition",
	},

	{
		rfc: "RFC 9110 §13.1.2: create only", ask: "PUT {text}",
		with: []string{"{put}", "If-None-Match: *", "Content-Length: 0"}, code: 412, reason: "precondition",
	},
	{
		rfc: "RFC 9110 §13.1.1: replace only", ask: "PUT {none}",
		with: []string{"{put}", "If-Match: *", "Content-Length: 0"}, code: 412, reason: "precondition",
	},
	{
		rfc: "RFC 9110 §13.1.1: it is here", ask: "PUT {text}",
		with: []string{"{put}", "If-Match: {text.tag}", "Content-Length: 0"}, code: 200, want: "Location: {text}",
	},
}

func TestConformanceConditionals(t *testing.T) {
	t.Parallel()
	newWorld(t).conform(t, conditionTable)
}
