package upload

import (
	"net/http"
	"strings"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// Endpoints are how objects get in. All but OPTIONS need a capability for
// put; an id of an upload is unguessable, and enough with any such capability
// that is for the upload's object.
func (g *Handlers) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{
		{
			ID: "putObject", Name: "object", Methods: []string{http.MethodPut}, Path: "/o/{b3}", On: exchange.OnPublic, Op: capability.Put, Upload: true,
			Doc:     "Stores the body, if it is the object of that address.",
			More:    "The body is not read where the object is here whole. Nothing is visible before it is verified and durable.",
			Params:  putParams,
			Headers: []string{"Content-Encoding", "Expect", "If-Match", "If-None-Match"},
			Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
			Answers: append(storedAnswers, exchange.Reply{Code: http.StatusPermanentRedirect, Headers: []string{"Location", "Cache-Control"}, Doc: "the address in lowercase digits"}),
			Fails:   append(putFails, status.BadAddress, status.Precondition),
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.putObject(w, r, in.Rest, in.Query)
			},
		},
		{
			ID: "postObject", Name: "objects", Methods: exchange.Posting, Path: "/o", On: exchange.OnPublic, Op: capability.Put, Upload: true,
			Doc:     "Stores the body, and answers with its address.",
			More:    "A capability that is limited to objects does not allow it: what the body is shows at its end.",
			Params:  putParams,
			Headers: []string{"Content-Encoding", "Expect"},
			Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
			Answers: storedAnswers, Fails: putFails,
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.postObject(w, r, in.Query)
			},
		},
		{
			ID: "beginUpload", Name: "uploads", Methods: exchange.Posting, Path: "/u", On: exchange.OnPublic, Op: capability.Put, Object: expected,
			Doc:     "Begins an upload that comes in pieces and survives cut connections and restarts.",
			More:    "Where Upload-Expect names an object that is here whole, that is the answer and there is no upload. A capability that is limited to objects needs Upload-Expect.",
			Params:  putParams,
			Headers: []string{uploadLength, uploadExpect},
			Answers: []exchange.Reply{
				{Code: http.StatusCreated, Headers: append([]string{"Location"}, uploadHeaders...), Doc: "the upload"},
				{Code: http.StatusOK, Payload: exchange.JSONBody[api.Stored](), Headers: []string{"Location", "Cache-Control"}, Doc: "the object is here"},
			},
			Fails: []status.Outcome{status.BadAddress, status.BadDigest, status.Unsupported, status.NotAllowed, status.Quota, status.Denied, status.NoSpace},
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.beginUpload(w, r, in.Query)
			},
		},
		{
			ID: "optionsUploads", Name: "uploads", Methods: []string{http.MethodOptions}, Path: "/u", On: exchange.OnPublic,
			Doc:     "Says how uploads in pieces work here.",
			Answers: []exchange.Reply{{Code: http.StatusNoContent, Headers: []string{"Allow", "Accept-Patch"}, Doc: "what is supported"}},
			Serve:   optionsUploads(http.MethodPost),
		},
		{
			ID: "optionsUpload", Name: "upload", Methods: []string{http.MethodOptions}, Path: "/u/{id}", On: exchange.OnPublic,
			Doc:     "Says what an upload answers.",
			Answers: []exchange.Reply{{Code: http.StatusNoContent, Headers: []string{"Allow", "Accept-Patch"}, Doc: "what is supported"}},
			Serve:   optionsUploads(http.MethodHead, http.MethodPatch, http.MethodDelete),
		},
		{
			ID: "uploadState", Name: "upload", Methods: []string{http.MethodHead}, Path: "/u/{id}", On: exchange.OnPublic, Op: capability.Put, Acts: exchange.ActsLater,
			Doc:     "How far an upload is.",
			Answers: []exchange.Reply{{Code: http.StatusOK, Headers: append([]string{"Location"}, uploadHeaders...), Doc: "Upload-Offset bytes are durable; Location is there once the whole is stored"}},
			Fails:   []status.Outcome{status.NotFound, status.Gone, status.Unsupported},
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.uploadState(w, r, in.Rest)
			},
		},
		{
			ID: "continueUpload", Name: "upload", Methods: []string{http.MethodPatch}, Path: "/u/{id}", On: exchange.OnPublic, Op: capability.Put, Acts: exchange.ActsLater, Upload: true,
			Doc:     "Adds a piece at Upload-Offset. What arrives of one that is cut stays.",
			More:    "The last piece stores the whole, and its answer is the object.",
			Headers: []string{uploadOffset, "Content-Type"},
			Body:    []exchange.Payload{{Media: uploadMedia}},
			Answers: []exchange.Reply{
				{Code: http.StatusNoContent, Headers: uploadHeaders, Doc: "the piece is durable"},
				{Code: http.StatusCreated, Payload: exchange.JSONBody[api.Stored](), Headers: append([]string{"Location"}, uploadHeaders...), Doc: "the object is stored"},
				{Code: http.StatusOK, Payload: exchange.JSONBody[api.Stored](), Headers: append([]string{"Location"}, uploadHeaders...), Doc: "the object was here already"},
			},
			Tells: []string{uploadOffset, uploadLength, uploadExpires},
			Fails: append(putFails, status.NotFound, status.Gone, status.Conflict),
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.continueUpload(w, r, in.Rest)
			},
		},
		{
			ID: "removeUpload", Name: "upload", Methods: []string{http.MethodDelete}, Path: "/u/{id}", On: exchange.OnPublic, Op: capability.Put, Acts: exchange.ActsLater,
			Doc:     "Gives an upload up.",
			Answers: []exchange.Reply{{Code: http.StatusNoContent, Headers: []string{"Cache-Control"}, Doc: "it is gone"}},
			Fails:   []status.Outcome{status.NotFound, status.Gone, status.Conflict, status.Unsupported},
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.removeUpload(w, r, in.Rest)
			},
		},
	}
}

// What the endpoints that store an object have in common.
var (
	putParams = []exchange.Param{
		{Name: "pin", Kind: exchange.BoolParam, Doc: "keep the object; without it, what the capability allows"},
		{Name: "label", Kind: exchange.AnyTextParam, Doc: "label of the pin, whose quota the object counts against; none is the one that the capability is bound to, if it is"},
	}
	storedAnswers = []exchange.Reply{
		{Code: http.StatusCreated, Payload: exchange.JSONBody[api.Stored](), Headers: []string{"Location", "Cache-Control"}, Doc: "the object is stored"},
		{Code: http.StatusOK, Payload: exchange.JSONBody[api.Stored](), Headers: []string{"Location", "Cache-Control"}, Doc: "the object was here already"},
	}
	putFails = []status.Outcome{
		status.BodyCap, status.DecompressCap, status.BadDigest, status.Unsupported, status.NotAllowed,
		status.Quota, status.Denied, status.NoSpace, status.Timeout, status.Canceled,
	}
	uploadHeaders = []string{uploadOffset, uploadLength, uploadExpires, "Cache-Control"}
)

// optionsUploads answers OPTIONS of a path with these methods.
func optionsUploads(methods ...string) exchange.Handler {
	return func(w *exchange.Response, _ *http.Request, _ exchange.Input) error {
		h := w.Header()
		h.Set("Allow", strings.Join(append([]string{http.MethodOptions}, methods...), ", "))
		h.Set("Accept-Patch", uploadMedia) // RFC 5789 §3.1
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}
