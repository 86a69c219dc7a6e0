package gateway

import (
	"net/http"

	"allium/gateway/client"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// uploadEndpoints are how objects get in. All but OPTIONS need a capability for
// put; an id of an upload is unguessable, and enough with any such capability
// that is for the upload's object.
var uploadEndpoints = []endpoint{
	{
		id: "putObject", name: "object", methods: []string{http.MethodPut}, path: "/o/{b3}", on: onPublic, op: capability.Put, upload: true,
		doc:     "Stores the body, if it is the object of that address.",
		more:    "The body is not read where the object is here whole. Nothing is visible before it is verified and durable.",
		params:  putParams,
		headers: []string{"Content-Encoding", "Expect", "If-Match", "If-None-Match"},
		body:    []payload{{media: mediaAny}},
		answers: append(storedAnswers, reply{code: http.StatusPermanentRedirect, headers: []string{"Location", "Cache-Control"}, doc: "the address in lowercase digits"}),
		fails:   append(putFails, status.BadAddress, status.Precondition),
		serve: func(g *Gateway, w *response, r *http.Request, in input) error {
			return g.putObject(w, r, in.rest, in.q)
		},
	},
	{
		id: "postObject", name: "objects", methods: posting, path: "/o", on: onPublic, op: capability.Put, upload: true,
		doc:     "Stores the body, and answers with its address.",
		more:    "A capability that is limited to objects does not allow it: what the body is shows at its end.",
		params:  putParams,
		headers: []string{"Content-Encoding", "Expect"},
		body:    []payload{{media: mediaAny}},
		answers: storedAnswers, fails: putFails,
		serve: func(g *Gateway, w *response, r *http.Request, in input) error { return g.postObject(w, r, in.q) },
	},
	{
		id: "beginUpload", name: "uploads", methods: posting, path: "/u", on: onPublic, op: capability.Put, acts: onExpected,
		doc:     "Begins an upload that comes in pieces and survives cut connections and restarts.",
		more:    "Where Upload-Expect names an object that is here whole, that is the answer and there is no upload. A capability that is limited to objects needs Upload-Expect.",
		params:  putParams,
		headers: []string{uploadLength, uploadExpect},
		answers: []reply{
			{code: http.StatusCreated, headers: append([]string{"Location"}, uploadHeaders...), doc: "the upload"},
			{code: http.StatusOK, payload: jsonBody[client.Stored](), headers: []string{"Location", "Cache-Control"}, doc: "the object is here"},
		},
		fails: []status.Outcome{status.BadAddress, status.BadDigest, status.Unsupported, status.NotAllowed, status.Quota, status.Denied, status.NoSpace},
		serve: func(g *Gateway, w *response, r *http.Request, in input) error { return g.beginUpload(w, r, in.q) },
	},
	{
		id: "optionsUploads", name: "uploads", methods: []string{http.MethodOptions}, path: "/u", on: onPublic,
		doc:     "Says how uploads in pieces work here.",
		answers: []reply{{code: http.StatusNoContent, headers: []string{"Allow", "Accept-Patch"}, doc: "what is supported"}},
		serve:   optionsUploads(http.MethodPost),
	},
	{
		id: "optionsUpload", name: "upload", methods: []string{http.MethodOptions}, path: "/u/{id}", on: onPublic,
		doc:     "Says what an upload answers.",
		answers: []reply{{code: http.StatusNoContent, headers: []string{"Allow", "Accept-Patch"}, doc: "what is supported"}},
		serve:   optionsUploads(http.MethodHead, http.MethodPatch, http.MethodDelete),
	},
	{
		id: "uploadState", name: "upload", methods: []string{http.MethodHead}, path: "/u/{id}", on: onPublic, op: capability.Put, acts: onUpload,
		doc:     "How far an upload is.",
		answers: []reply{{code: http.StatusOK, headers: append([]string{"Location"}, uploadHeaders...), doc: "Upload-Offset bytes are durable; Location is there once the whole is stored"}},
		fails:   []status.Outcome{status.NotFound, status.Gone, status.Unsupported},
		serve:   func(g *Gateway, w *response, r *http.Request, in input) error { return g.uploadState(w, r, in.rest) },
	},
	{
		id: "continueUpload", name: "upload", methods: []string{http.MethodPatch}, path: "/u/{id}", on: onPublic, op: capability.Put, acts: onUpload, upload: true,
		doc:     "Adds a piece at Upload-Offset. What arrives of one that is cut stays.",
		more:    "The last piece stores the whole, and its answer is the object.",
		headers: []string{uploadOffset, "Content-Type"},
		body:    []payload{{media: uploadMedia}},
		answers: []reply{
			{code: http.StatusNoContent, headers: uploadHeaders, doc: "the piece is durable"},
			{code: http.StatusCreated, payload: jsonBody[client.Stored](), headers: append([]string{"Location"}, uploadHeaders...), doc: "the object is stored"},
			{code: http.StatusOK, payload: jsonBody[client.Stored](), headers: append([]string{"Location"}, uploadHeaders...), doc: "the object was here already"},
		},
		tells: []string{uploadOffset, uploadLength, uploadExpires},
		fails: append(putFails, status.NotFound, status.Gone, status.Conflict),
		serve: func(g *Gateway, w *response, r *http.Request, in input) error {
			return g.continueUpload(w, r, in.rest)
		},
	},
	{
		id: "removeUpload", name: "upload", methods: []string{http.MethodDelete}, path: "/u/{id}", on: onPublic, op: capability.Put, acts: onUpload,
		doc:     "Gives an upload up.",
		answers: []reply{{code: http.StatusNoContent, headers: []string{"Cache-Control"}, doc: "it is gone"}},
		fails:   []status.Outcome{status.NotFound, status.Gone, status.Conflict, status.Unsupported},
		serve:   func(g *Gateway, w *response, r *http.Request, in input) error { return g.removeUpload(w, r, in.rest) },
	},
}

// What the endpoints that store an object have in common.
var (
	putParams = []param{
		{name: "pin", kind: boolean, doc: "keep the object; without it, what the capability allows"},
		{name: "label", kind: anyText, doc: "label of the pin, whose quota the object counts against; none is the one that the capability is bound to, if it is"},
	}
	storedAnswers = []reply{
		{code: http.StatusCreated, payload: jsonBody[client.Stored](), headers: []string{"Location", "Cache-Control"}, doc: "the object is stored"},
		{code: http.StatusOK, payload: jsonBody[client.Stored](), headers: []string{"Location", "Cache-Control"}, doc: "the object was here already"},
	}
	putFails = []status.Outcome{
		status.BodyCap, status.DecompressCap, status.BadDigest, status.Unsupported, status.NotAllowed,
		status.Quota, status.Denied, status.NoSpace, status.Timeout, status.Canceled,
	}
	uploadHeaders = []string{uploadOffset, uploadLength, uploadExpires, "Cache-Control"}
)

// optionsUploads answers OPTIONS of a path with these methods.
func optionsUploads(methods ...string) handler {
	return func(_ *Gateway, w *response, _ *http.Request, _ input) error {
		h := w.Header()
		h["Allow"] = append([]string{http.MethodOptions}, methods...)
		h.Set("Accept-Patch", uploadMedia) // RFC 5789 §3.1
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}
