package gateway

import (
	"strconv"
	"strings"
	"testing"
)

// encodingTable is RFC 9110 §8.4 of what is sent here. What is sent from here
// is never encoded: see TestConformanceIdentity.
var encodingTable = []asked{
	{
		rfc: "RFC 9110 §8.4: none", ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Length: 5\r\n\r\nhello",
		code: 201, want: "Location: {new} | Content-Type: application/json",
	},
	{
		rfc:  "RFC 9110 §12.5.3: identity",
		ask:  "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
		code: 200, want: "Location: {new}",
	},
	{
		rfc:  "RFC 9110 §8.4.1: case",
		ask:  "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: IDENTITY\r\nContent-Length: 5\r\n\r\nhello",
		code: 200, want: "Location: {new}",
	},
	{
		rfc: "RFC 9110 §5.6.1: empty",
		ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: ,\r\nContent-Length: 5\r\n\r\nhello", code: 200,
		want: "Location: {new}",
	},
	{
		rfc: "RFC 9110 §8.4.1.3",
		ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: gzip\r\nContent-Length: " +
			"{gzip.len}\r\n\r\n{gzip}",
		code: 200, want: "Location: {new}",
	},
	{
		rfc: "RFC 9110 §8.4.1.3: x-gzip",
		ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: X-GZip\r\nContent-Length: " +
			"{gzip.len}\r\n\r\n{gzip}",
		code: 200, want: "Location: {new}",
	},
	{
		rfc: "RFC 9110 §8.4.1.3: to an address",
		ask: "PUT {new} HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: gzip\r\nContent-Length: " +
			"{gzip.len}\r\n\r\n{gzip}",
		code: 200, want: "Location: {new}", closes: true,
	},
	{
		rfc: "RFC 8878",
		ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: ZSTD\r\nContent-Length: " +
			"{zstd.len}\r\n\r\n{zstd}",
		code: 200, want: "Location: {new}",
	},
	{
		rfc: "RFC 9110 §15.5.16: unknown", ask: "POST /o",
		with: []string{"{put}", "Content-Encoding: br", "Content-Length: 5"}, code: 415, reason: "unsupported",
		closes: true,
	},
	{
		rfc: "RFC 9110 §15.5.16: unknown", ask: "POST /o",
		with: []string{"{put}", "Content-Encoding: compress", "Content-Length: 5"}, code: 415, reason: "unsupported",
		closes: true,
	},
	{
		rfc: "RFC 9110 §15.5.16: unknown", ask: "POST /o",
		with: []string{"{put}", "Content-Encoding: \"gzip\"", "Content-Length: 5"}, code: 415, reason: "unsupported",
		closes: true,
	},
	{
		rfc: "RFC 9110 §15.5.16: unknown", ask: "POST /o",
		with: []string{"{put}", "Content-Encoding: gzip;q=1", "Content-Length: 5"}, code: 415, reason: "unsupported",
		closes: true,
	},
	{
		rfc: "SPEC §2: stacked", ask: "POST /o",
		with: []string{"{put}", "Content-Encoding: gzip, gzip", "Content-Length: 5"}, code: 415, reason: "unsupported",
		closes: true,
	},
	{
		rfc: "SPEC §2: stacked", ask: "POST /o",
		with: []string{"{put}", "Content-Encoding: gzip", "Content-Encoding: zstd", "Content-Length: 5"}, code: 415,
		reason: "unsupported", closes: true,
	},
	{
		rfc: "SPEC §2: stacked", ask: "POST /o",
		with: []string{"{put}", "Content-Encoding: identity, gzip", "Content-Length: 5"}, code: 415,
		reason: "unsupported", closes: true,
	},
	{
		rfc: "RFC 9110 §15.5.1: no gzip",
		ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: gzip\r\nContent-Length: " +
			"12\r\n\r\nhello, world",
		code: 400, reason: "bad_request",
	},
	{
		rfc: "RFC 9110 §15.5.1: no zstd",
		ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: zstd\r\nContent-Length: " +
			"12\r\n\r\nhello, world",
		code: 400, reason: "bad_request",
	},
	{
		rfc: "RFC 9110 §15.5.1: the other one",
		ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: zstd\r\nContent-Length: " +
			"{gzip.len}\r\n\r\n{gzip}",
		code: 400, reason: "bad_request",
	},
	{
		rfc: "RFC 9110 §15.5.1: cut short",
		ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: gzip\r\nContent-Length: " +
			"{cut.len}\r\n\r\n{cut}",
		code: 400, reason: "bad_request",
	},
	{
		rfc: "RFC 1952 §2.2: something follows",
		ask: "POST /o HTTP/1.1\r\nHost: x\r\n{put}\r\nContent-Encoding: gzip\r\nContent-Length: " +
			"{tail.len}\r\n\r\n{tail}",
		code: 400, reason: "bad_request",
	},
	{
		rfc: "RFC 9110 §15.5.1: nothing", ask: "POST /o",
		with: []string{"{put}", "Content-Encoding: gzip", "Content-Length: 0"}, code: 400, reason: "bad_request",
	},
	{
		rfc: "SPEC §9: of pieces", ask: "PATCH {upload}",
		with: []string{
			"{put}", "Content-Type: application/offset+octet-stream", "Upload-Offset: 0", "Content-Encoding: gzip",
			"Content-Length: 5",
		},
		code: 415, reason: "unsupported", closes: true,
	},
	{
		rfc: "RFC 9110 §15.5.16: of a read", ask: "GET {text}", with: []string{"Content-Encoding: br"}, code: 200,
		holds: "=" + helloText,
	},

	{
		rfc: "RFC 9110 §12.5.1: bao", ask: "GET {text}", with: []string{"Accept: {bao}"}, code: 200,
		want: "{bao.type} | Vary: Range, Accept",
	},
	{
		rfc: "RFC 9110 §12.5.1: case", ask: "GET {text}", with: []string{"Accept: APPLICATION/Vnd.Allium.BAO"},
		code: 200, want: "{bao.type}",
	},
	{
		rfc: "RFC 9110 §12.5.1: liked as much", ask: "GET {text}", with: []string{"Accept: */*;q=0.5, {bao};q=0.5"},
		code: 200, want: "{bao.type}",
	},
	{
		rfc: "RFC 9110 §12.5.1: liked less", ask: "GET {text}", with: []string{"Accept: */*, {bao};q=0.9"}, code: 200,
		holds: "=" + helloText,
	},
	{
		rfc: "RFC 9110 §12.4.2: refused", ask: "GET {text}", with: []string{"Accept: {bao};q=0"}, code: 200,
		holds: "=" + helloText,
	},
	{
		rfc: "RFC 9110 §12.4.2: refused", ask: "GET {text}", with: []string{"Accept: {bao};q=0.000"}, code: 200,
		holds: "=" + helloText,
	},
	{
		rfc: "RFC 9110 §12.4.2: nonsense", ask: "GET {text}", with: []string{"Accept: {bao};q=yes, ;;,/"}, code: 200,
		holds: "=" + helloText,
	},
	{rfc: "RFC 9110 §12.5.1: any", ask: "GET {text}", with: []string{"Accept: */*"}, code: 200, holds: "=" + helloText},
	{
		rfc: "RFC 9110 §5.3: joined", ask: "GET {text}", with: []string{"Accept: */*", "Accept: {bao};q=0.5"},
		code: 200, holds: "=" + helloText,
	},
	{
		rfc: "RFC 9110 §12.5.1: none fits", ask: "GET {text}", with: []string{"Accept: image/png"}, code: 200,
		holds: "=" + helloText,
	},
	{
		rfc: "RFC 9110 §5.3: joined", ask: "GET {text}", with: []string{"Accept: text/html", "Accept: {bao}"},
		code: 200, want: "{bao.type}",
	},
	{
		rfc: "docs/http.md: the query decides", ask: "GET {text}?format=bao", with: []string{"Accept: {bao};q=0"},
		code: 200, want: "{bao.type}",
	},
	{rfc: "docs/http.md", ask: "GET {text}?format=BAO", code: 400, reason: "bad_request"},
	{rfc: "docs/http.md", ask: "GET {text}?format=bao&format=bao", code: 400, reason: "bad_request"},
	{rfc: "docs/http.md", ask: "GET {dir}/?format=xml", code: 400, reason: "bad_request"},
	{rfc: "docs/http.md", ask: "GET {dir}/?format=json&format=html", code: 400, reason: "bad_request"},
	{
		rfc: "RFC 9110 §12.5.1: a listing", ask: "GET {dir}/", with: []string{"Accept: application/json"}, code: 200,
		want: "Content-Type: application/json | Vary: Accept-Encoding, Accept",
	},
	{
		rfc: "RFC 9110 §12.5.5: the query decides", ask: "GET {dir}/?format=json", with: []string{"Accept: text/html"},
		code: 200, want: "Content-Type: application/json | Vary: Accept-Encoding",
	},
	{
		rfc: "RFC 9110 §12.5.1: a listing", ask: "GET {dir}/", with: []string{"Accept: application/json, text/html"},
		code: 200, want: "Content-Type: text/html; charset=utf-8",
	},
	{
		rfc: "RFC 9110 §12.4.2: a listing", ask: "GET {dir}/", with: []string{"Accept: application/json;q=0.0"},
		code: 200, want: "Content-Type: text/html; charset=utf-8",
	},
	{
		rfc: "RFC 9110 §12.4.2: a listing", ask: "GET {dir}/",
		with: []string{"Accept: application/json, text/html;q=0.000"}, code: 200,
		want: "Content-Type: application/json",
	},
}

func TestConformanceEncodings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.openUpload(t)
	w.conform(t, w.encoded(t, encodingTable))
}

// encoded puts compressed bodies into a table, which no replacer may look into.
func (w *world) encoded(t *testing.T, table []asked) []asked {
	t.Helper()
	z := string(gzipped(t, []byte("hello")))
	bodies := map[string]string{
		"gzip": z, "zstd": string(zstdFrame(t, []byte("hello"))), "cut": z[:len(z)-3], "tail": z + "tail",
	}
	out := make([]asked, len(table))
	for i, e := range table {
		for name, body := range bodies {
			e.ask = strings.ReplaceAll(e.ask, "{"+name+".len}", strconv.Itoa(len(body)))
			e.ask = strings.ReplaceAll(e.ask, "{"+name+"}", body)
		}
		out[i] = e
	}
	return out
}

// TestConformanceIdentity: whatever a client accepts, what it gets is the same
// bytes under the same tag (RFC 9110 §8.8.3.3, §12.5.3).
func TestConformanceIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var table []asked
	for _, accept := range []string{
		"gzip", "br", "zstd", "gzip, br;q=0.5, zstd;q=0.1", "gzip;q=0", "identity;q=0", "*;q=0",
		"identity;q=0, *;q=0", "*",
		"", "gzip;q=1.000, identity;q=0.001",
		"x-gzip", "deflate;q=9", "dcb, dcz",
	} {
		line := "Accept-Encoding: " + accept
		table = append(table,
			asked{
				rfc: "RFC 9110 §12.5.3", ask: "GET {text}", with: []string{line}, code: 200,
				want:  "ETag: {text.tag} | Content-Length: 13 | Content-Encoding: | Vary: Accept",
				holds: "=" + helloText,
			},
			asked{
				rfc: "RFC 9110 §12.5.3", ask: "GET {text}", with: []string{line, "Range: bytes=0-4"}, code: 206,
				want: "ETag: {text.tag} | Content-Encoding:", holds: "=hello",
			},
			asked{
				rfc: "RFC 9110 §12.5.3", ask: "GET {file}", with: []string{line}, code: 200,
				want: "ETag: {file.tag} | Content-Encoding: | Vary:", holds: "=read me\n",
			},
			asked{
				rfc: "RFC 9110 §12.5.3", ask: "GET {text}?format=bao", with: []string{line}, code: 200,
				want: "Content-Length: 21 | Content-Encoding:",
			},
			asked{
				rfc: "RFC 9110 §12.5.3", ask: "GET {dir}/", with: []string{line}, code: 200,
				want: "Vary: Accept-Encoding, Accept, Accept-Language",
			},
			asked{
				rfc: "RFC 9110 §12.5.3", ask: "GET /openapi.json", with: []string{line},
				code: 200, want: "Content-Encoding:",
			},
			asked{
				rfc: "RFC 9110 §12.5.3", ask: "GET {none}", with: []string{line}, code: 404, reason: "not_found",
				want: "Content-Encoding:",
			},
		)
	}
	w.conform(t, table)
}
