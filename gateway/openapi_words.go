package gateway

import (
	"reflect"
	"time"

	"allium/gateway/client"
	"allium/protocols/b3"
)

// headerDoc describes a header.
type headerDoc struct {
	doc     string
	pattern string // of its values; empty: any
}

// headerDocs describes every header that an endpoint names.
var headerDocs = map[string]headerDoc{
	// Of requests.
	"Idempotency-Key": {doc: "Up to 255 visible ASCII characters. The same request with the same key answers again what the first one did, for a day, as long as the node runs. Where the first one failed in a way that may pass, it is tried again.", pattern: "^[!-~]{1,255}$"},
	"If-Match":        {doc: "412 unless one of the entity tags is the object's."},
	"If-None-Match":   {doc: "304 when one of the entity tags is the object's."},
	"If-Range":        {doc: "Range counts only if this is the object's entity tag."},
	"Range":           {doc: "One range of bytes, or as many as the operator lets be asked for at once (`gateway.multi_range`)."},
	"Request-Timeout": {doc: "Seconds; shortens how long the node tries."},

	"Content-Encoding": {doc: "`gzip`, `zstd` or `identity`.", pattern: "^(gzip|zstd|identity)$"},
	"Expect":           {doc: "`100-continue`: the body is asked for when nothing refuses it.", pattern: "^100-continue$"},
	uploadExpect:       {doc: "The address that the whole must have.", pattern: "^b3:[0-9a-f]{64}$"},

	// Of both.
	uploadLength:    {doc: "Bytes that the whole upload has.", pattern: `^\d+$`},
	uploadOffset:    {doc: "Bytes of the upload that are durable.", pattern: `^\d+$`},
	"Cache-Control": {doc: "In a request, `only-if-cached` asks for what is on this node alone. In an answer, how long it may be kept."},
	"X-Corr-ID":     {doc: "Names the request in the node's log: a token of up to 64 characters from the client, or a new one.", pattern: "^[A-Za-z0-9._-]{1,64}$"},

	"Idempotent-Replayed": {doc: "`true` on an answer that an earlier request with the same key got.", pattern: "^true$"},

	// Of answers.
	"Accept-Patch":                  {doc: "The media type of a piece."},
	uploadExpires:                   {doc: "When an upload that is not continued is given up."},
	"Accept-Ranges":                 {doc: "`bytes`, and of an encoding `none`: its range is asked for in the query.", pattern: "^(bytes|none)$"},
	"Access-Control-Allow-Origin":   {doc: "The page's origin, where the operator lets it read answers (`gateway.cors_origins`)."},
	"Access-Control-Expose-Headers": {doc: "The headers that such a page may read."},
	"Allow":                         {doc: "The methods that the path has."},
	"Content-Disposition":           {doc: "`attachment` for documents that a browser would run scripts of."},
	"Content-Range":                 {doc: "Which bytes of how many.", pattern: `^bytes (\d+-\d+|\*)/\d+$`},
	"Content-Security-Policy":       {doc: "What a page may load."},
	"Cross-Origin-Resource-Policy":  {doc: "`same-site`, and of the module `cross-origin`."},
	"ETag":                          {doc: "Of an object its address in quotes, strong; of a page that the node made a weak one."},
	"Content-Location":              {doc: "Where this encoding of the object is."},
	"Link":                          {doc: "Where the verified encoding of the object is."},
	"Location":                      {doc: "Where it is."},
	"Referrer-Policy":               {doc: "`no-referrer`.", pattern: "^no-referrer$"},
	"Retry-After":                   {doc: "Seconds after which asking again can help.", pattern: `^\d+$`},
	"Strict-Transport-Security":     {doc: "Over https: for how long a browser asks over https alone."},
	"Trailer":                       {doc: "`" + client.HeaderStatus + "`: the trailer that says how the body ended, `ok` or JSON of a Report."},
	"Vary":                          {doc: "The request headers that chose this answer."},
	"WWW-Authenticate":              {doc: "`Bearer`."},
	"X-Content-Type-Options":        {doc: "`nosniff`.", pattern: "^nosniff$"},
	"X-Reason":                      {doc: "The outcome, see status.md.", pattern: "^[a-z_]+$"},
	client.HeaderObject:             {doc: "JSON of the Object that is sent."},
}

// everyAnswer are the headers that every answer has, tlsAnswer those that every
// answer of a listener with TLS has, corsAnswer those that answers to pages of
// other origins have, where these may read them.
var (
	everyAnswer = []string{"X-Corr-ID", "X-Content-Type-Options", "Referrer-Policy"}
	tlsAnswer   = []string{"Strict-Transport-Security"}
	corsAnswer  = []string{"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Vary"}
)

// foreignWords describes the members of types that come from other packages.
var foreignWords = map[string]string{
	"Report":              "An error in an answer that has begun, with what an RFC 9457 problem would say.",
	"Report.Reason":       "the outcome",
	"Report.Message":      "what happened and what to do",
	"Report.Detail":       "a narrower label",
	"Report.Limit":        "the bound that was hit, as /limits names it",
	"Report.Current":      "what is in use of it",
	"Report.Cap":          "what there is of it",
	"Report.RetryAfterMS": "milliseconds after which asking again can help",
	"Report.LookupID":     "names the lookup in the log",
}

// examples are values of the types that clients see most.
var examples = func() map[reflect.Type]any {
	root := b3.Sum([]byte("hello\n"))
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pin := client.Pin{Root: root, Recursive: true, Label: "photos", Since: when}
	m := map[reflect.Type]any{}
	for _, v := range []any{
		client.Object{Root: root, Kind: client.File, Size: 6, Name: "hello.txt"},
		client.Entry{Name: "hello.txt", Kind: client.File, Root: root, Size: 6},
		client.Stat{Root: root, CID: root.CID().String(), Kind: client.File, Size: 6, Groups: 1, Local: true, Pins: []client.Pin{pin}},
		pin,
		client.Added{Name: "hello.txt", Root: root, Kind: client.File, Files: 1, Bytes: 6, New: 6, Hashed: 1},
		client.Version{Version: "v0.4.0", Commit: "5f0c2a1", Go: "go1.26.8"},
		client.Readiness{Ready: true, Reads: true, Writes: true, Gates: []client.Gate{{Name: "started", Ready: true, Have: 1, Need: 1}}},
		client.PinRequest{Key: root.String(), Recursive: true, Label: "photos"},
		client.UnpinRequest{Key: root.String(), Label: "photos"},
		client.ReindexRequest{Key: root.String()},
		client.RepairRequest{Key: root.String()},
		client.GCRequest{Dry: true},
		client.Reloaded{Files: []client.ReloadedFile{{Name: "denylist"}, {Name: "capabilities"}}},
		client.Problem{
			Type: "urn:allium:problem:not_found", Title: "not found", Status: 404, Instance: "urn:allium:request:5f0c2a1b9d3e4f60",
			Detail: "no provider of " + root.String() + " was found; try again later", Reason: "not_found",
		},
	} {
		m[reflect.TypeOf(v)] = v
	}
	return m
}()
