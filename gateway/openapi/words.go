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
	"Idempotency-Key": {
		Doc: "Up to 255 visible ASCII characters. Repeating a request with the same key returns the first " +
			"answer, for a day or until the node restarts. If the first request failed and a retry may help, it " +
			"runs again.",
		Pattern: "^[!-~]{1,255}$",
	},
	"If-Match":            {Doc: "The answer is 412 unless one of the entity tags is the object's."},
	"If-None-Match":       {Doc: "The answer is 304 if one of the entity tags is the object's."},
	"If-Modified-Since":   {Doc: "The answer is 304 if the content is not younger. If-None-Match counts in its place."},
	"If-Unmodified-Since": {Doc: "The answer is 412 if the content is younger. If-Match counts in its place."},
	"If-Range":            {Doc: "Range applies only if this is the object's entity tag or its Last-Modified."},
	"Range":               {Doc: "One range of bytes, or as many as the operator allows (`gateway.multi_range`)."},
	api.HeaderRoots: {Doc: "`true`: lines with the member `roots` give the addresses of the files whose bytes the " +
		"tar carries, in its order, as they are stored. Read the answer while you send.", Pattern: "^(true|false)$"},
	"Request-Timeout": {Doc: "The seconds after which the node gives up. It only shortens the node's own limits."},

	"Accept-Encoding": {Doc: "The content codings that the client takes."},
	"Content-Encoding": {Doc: "`gzip`, `zstd` or `identity`; of tiles also `br`.",
		Pattern: "^(gzip|zstd|br|identity)$"},
	"Expect": {Doc: "`100-continue`: the node requests the body once it accepts the request.",
		Pattern: "^100-continue$"},
	"Upload-Expect": {Doc: "The address that the whole object must have.", Pattern: "^b3:[0-9a-f]{64}$"},

	// Of both.
	"Upload-Length": {Doc: "The length of the whole upload in bytes.", Pattern: `^\d+$`},
	"Upload-Offset": {Doc: "The number of durable bytes of the upload.", Pattern: `^\d+$`},
	"Age":           {Doc: "The seconds since the node asked the network, of an answer that is stale."},
	"Warning":       {Doc: "`111` of a stale answer whose origin failed, `112` of one of a node that is offline."},
	"Cache-Control": {Doc: "In a request, `only-if-cached` forbids fetching from peers, and `max-stale=SECONDS` " +
		"takes a record of a name that ended at most so long ago. In an answer, how long caches " +
		"may store it."},
	"X-Corr-ID": {Doc: "Names the request in the node's log: a token of up to 64 characters from the client, or a " +
		"new one.", Pattern: "^[A-Za-z0-9._-]{1,64}$"},

	"Idempotent-Replayed": {
		Doc: "`true` if the answer is that of an earlier request with the same key.", Pattern: "^true$",
	},

	"Tus-Resumable": {Doc: "The version of tus that the client or the node speaks, `1.0.0`.",
		Pattern: `^\d+\.\d+\.\d+$`},

	// Of answers.
	"Tus-Version":    {Doc: "The versions of tus that the node speaks."},
	"Tus-Extension":  {Doc: "What the node does of tus beside its core."},
	"Accept-Patch":   {Doc: "The media type of a part."},
	"Upload-Expires": {Doc: "When the upload is removed if no more bytes arrive."},
	"Accept-Ranges": {Doc: "`bytes`, or `none` for a verified encoding, whose range is a query parameter.",
		Pattern: "^(bytes|none)$"},
	"Access-Control-Allow-Origin": {Doc: "The page's origin, if the operator allows it to read answers " +
		"(`gateway.cors_origins`, `gateway.open_proofs`)."},
	"Access-Control-Expose-Headers": {Doc: "The headers that the page may read."},
	"Allow":                         {Doc: "The methods that the path has."},
	"Content-Disposition": {Doc: "`attachment` for documents whose scripts a browser would run; of a link, the name " +
		"of the file too."},
	"Set-Cookie":   {Doc: "By which a link with a number of downloads knows a browser again."},
	"X-Robots-Tag": {Doc: "`noindex`: search engines leave links out.", Pattern: "^noindex$"},
	"Content-Range": {Doc: "The bytes of the answer, and the length of the whole.",
		Pattern: `^bytes (\d+-\d+|\*)/\d+$`},
	"Content-Security-Policy":      {Doc: "What a page may load."},
	"Cross-Origin-Resource-Policy": {Doc: "`same-site`; for the module `cross-origin`."},
	"ETag": {Doc: "An object's address in quotes, a strong tag. A page that the node " +
		"generates has a weak tag."},
	"Last-Modified": {Doc: "For clients that know only dates: one constant date for an address, the time of the " +
		"record for a name."},
	"Content-Location":          {Doc: "The URL of this encoding of the object."},
	"Link":                      {Doc: "The URL of the object's verified encoding."},
	"Location":                  {Doc: "The URL of the object, the upload or the page."},
	"Referrer-Policy":           {Doc: "`no-referrer`.", Pattern: "^no-referrer$"},
	"Retry-After":               {Doc: "Seconds after which asking again can help.", Pattern: `^\d+$`},
	"Strict-Transport-Security": {Doc: "Over https: for how long a browser asks over https alone."},
	"Trailer": {Doc: "`" + api.HeaderStatus +
		"`: the trailer that says how the body ended, `ok` or JSON of a Report."},
	"Vary":                   {Doc: "The request headers that chose this answer."},
	"WWW-Authenticate":       {Doc: "`Bearer`."},
	"X-Content-Type-Options": {Doc: "`nosniff`.", Pattern: "^nosniff$"},
	"X-Reason":               {Doc: "The outcome, see status.md.", Pattern: "^[a-z_]+$"},
	api.HeaderObject:         {Doc: "JSON of the Object that is sent."},
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
	"Report.LookupID":     "names the lookup, for `allium why` and in the log",
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
		api.Stat{Root: root, CID: root.CID().String(), Kind: api.File, Size: 6, Groups: 1,
			Local: true, Pins: []api.Pin{pin}},
		pin,
		api.Added{Name: "hello.txt", Root: root, Kind: api.File, Files: 1, Bytes: 6, New: 6, Hashed: 1},
		api.Version{Version: "v0.4.0", Commit: "5f0c2a1", Date: "2026-11-29T12:00:00Z", Go: "go1.26.8",
			OS: "linux", Arch: "amd64"},
		api.Readiness{
			Ready: true, Reads: true, Writes: true, Network: true,
			Gates: []api.Gate{{Name: "started", Ready: true, Have: 1, Need: 1}},
		},
		api.PinRequest{Key: root.String(), Recursive: true, Label: "photos"},
		api.UnpinRequest{Key: root.String(), Label: "photos"},
		api.PublishRequest{Name: "blog.site", Value: root.String(), TTLMS: 60_000, LifeMS: 604_800_000},
		api.WithdrawRequest{Name: "blog.site"},
		api.ReindexRequest{Key: root.String()},
		api.RepairRequest{Key: root.String()},
		api.GCRequest{Dry: true},
		api.Reloaded{
			Token: "5f0c2a1b9d3e4f60", At: when, Result: api.ReloadApplied,
			Changed: []api.ConfigChange{{Key: "node.upload_rate", Old: "0", New: "10MiB", Hot: true}},
			Waiting: []api.ConfigChange{},
			Tasks: []api.ReloadTask{
				{Name: "configuration", State: api.TaskDone, Since: when, TookMS: 1.5},
				{Name: "denylist", State: api.TaskDone, Since: when, TookMS: 0.5},
			},
			GuardUntil: when.Add(time.Minute),
		},
		api.Problem{
			Type: "urn:allium:problem:not_found", Title: "not found", Status: 404,
			Instance: "urn:allium:request:5f0c2a1b9d3e4f60",
			Detail:   "no provider of " + root.String() + " was found; try again later", Reason: "not_found",
		},
	} {
		m[reflect.TypeOf(v)] = v
	}
	return m
}()
