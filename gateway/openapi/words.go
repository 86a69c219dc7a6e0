package openapi

import (
	"reflect"
	"time"

	"allium/gateway/api"
	"allium/protocols/b3"
)

// HeaderDoc describes a header.
type HeaderDoc struct {
	Doc     string // a sentence
	Pattern string // of its values; empty: any
}

// HeaderDocs describes every header that an endpoint names.
var HeaderDocs = map[string]HeaderDoc{
	// Of requests.
	"Idempotency-Key": {Doc: "Up to 255 visible ASCII characters. The same request with the same key answers again what the first one did, for a day, as long as the node runs. Where the first one failed in a way that may pass, it is tried again.", Pattern: "^[!-~]{1,255}$"},
	"If-Match":        {Doc: "412 unless one of the entity tags is the object's."},
	"If-None-Match":   {Doc: "304 when one of the entity tags is the object's."},
	"If-Range":        {Doc: "Range counts only if this is the object's entity tag."},
	"Range":           {Doc: "One range of bytes, or as many as the operator lets be asked for at once (`gateway.multi_range`)."},
	"Request-Timeout": {Doc: "Seconds; shortens how long the node tries."},

	"Content-Encoding": {Doc: "`gzip`, `zstd` or `identity`.", Pattern: "^(gzip|zstd|identity)$"},
	"Expect":           {Doc: "`100-continue`: the body is asked for when nothing refuses it.", Pattern: "^100-continue$"},
	"Upload-Expect":    {Doc: "The address that the whole must have.", Pattern: "^b3:[0-9a-f]{64}$"},

	// Of both.
	"Upload-Length": {Doc: "Bytes that the whole upload has.", Pattern: `^\d+$`},
	"Upload-Offset": {Doc: "Bytes of the upload that are durable.", Pattern: `^\d+$`},
	"Cache-Control": {Doc: "In a request, `only-if-cached` asks for what is on this node alone. In an answer, how long it may be kept."},
	"X-Corr-ID":     {Doc: "Names the request in the node's log: a token of up to 64 characters from the client, or a new one.", Pattern: "^[A-Za-z0-9._-]{1,64}$"},

	"Idempotent-Replayed": {Doc: "`true` on an answer that an earlier request with the same key got.", Pattern: "^true$"},

	// Of answers.
	"Accept-Patch":                  {Doc: "The media type of a piece."},
	"Upload-Expires":                {Doc: "When an upload that is not continued is given up."},
	"Accept-Ranges":                 {Doc: "`bytes`, and of an encoding `none`: its range is asked for in the query.", Pattern: "^(bytes|none)$"},
	"Access-Control-Allow-Origin":   {Doc: "The page's origin, where the operator lets it read answers (`gateway.cors_origins`)."},
	"Access-Control-Expose-Headers": {Doc: "The headers that such a page may read."},
	"Allow":                         {Doc: "The methods that the path has."},
	"Content-Disposition":           {Doc: "`attachment` for documents that a browser would run scripts of."},
	"Content-Range":                 {Doc: "Which bytes of how many.", Pattern: `^bytes (\d+-\d+|\*)/\d+$`},
	"Content-Security-Policy":       {Doc: "What a page may load."},
	"Cross-Origin-Resource-Policy":  {Doc: "`same-site`, and of the module `cross-origin`."},
	"ETag":                          {Doc: "Of an object its address in quotes, strong; of a page that the node made a weak one."},
	"Content-Location":              {Doc: "Where this encoding of the object is."},
	"Link":                          {Doc: "Where the verified encoding of the object is."},
	"Location":                      {Doc: "Where it is."},
	"Referrer-Policy":               {Doc: "`no-referrer`.", Pattern: "^no-referrer$"},
	"Retry-After":                   {Doc: "Seconds after which asking again can help.", Pattern: `^\d+$`},
	"Strict-Transport-Security":     {Doc: "Over https: for how long a browser asks over https alone."},
	"Trailer":                       {Doc: "`" + api.HeaderStatus + "`: the trailer that says how the body ended, `ok` or JSON of a Report."},
	"Vary":                          {Doc: "The request headers that chose this answer."},
	"WWW-Authenticate":              {Doc: "`Bearer`."},
	"X-Content-Type-Options":        {Doc: "`nosniff`.", Pattern: "^nosniff$"},
	"X-Reason":                      {Doc: "The outcome, see status.md.", Pattern: "^[a-z_]+$"},
	api.HeaderObject:                {Doc: "JSON of the Object that is sent."},
}

// EveryAnswer are the headers that every answer has, tlsAnswer those that every
// answer of a listener with TLS has, corsAnswer those that answers to pages of
// other origins have, where these may read them.
var (
	EveryAnswer = []string{"X-Corr-ID", "X-Content-Type-Options", "Referrer-Policy"}
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
	pin := api.Pin{Root: root, Recursive: true, Label: "photos", Since: when}
	m := map[reflect.Type]any{}
	for _, v := range []any{
		api.Object{Root: root, Kind: api.File, Size: 6, Name: "hello.txt"},
		api.Entry{Name: "hello.txt", Kind: api.File, Root: root, Size: 6},
		api.Stat{Root: root, CID: root.CID().String(), Kind: api.File, Size: 6, Groups: 1, Local: true, Pins: []api.Pin{pin}},
		pin,
		api.Added{Name: "hello.txt", Root: root, Kind: api.File, Files: 1, Bytes: 6, New: 6, Hashed: 1},
		api.Version{Version: "v0.4.0", Commit: "5f0c2a1", Go: "go1.26.8"},
		api.Readiness{Ready: true, Reads: true, Writes: true, Network: true, Gates: []api.Gate{{Name: "started", Ready: true, Have: 1, Need: 1}}},
		api.PinRequest{Key: root.String(), Recursive: true, Label: "photos"},
		api.UnpinRequest{Key: root.String(), Label: "photos"},
		api.ReindexRequest{Key: root.String()},
		api.RepairRequest{Key: root.String()},
		api.GCRequest{Dry: true},
		api.Reloaded{Files: []api.ReloadedFile{{Name: "denylist"}, {Name: "capabilities"}}},
		api.Problem{
			Type: "urn:allium:problem:not_found", Title: "not found", Status: 404, Instance: "urn:allium:request:5f0c2a1b9d3e4f60",
			Detail: "no provider of " + root.String() + " was found; try again later", Reason: "not_found",
		},
	} {
		m[reflect.TypeOf(v)] = v
	}
	return m
}()
