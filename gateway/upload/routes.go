package upload

import (
	"net/http"
	"strings"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// Endpoints returns the routes of uploads. All but OPTIONS need a capability for put. The id of
// an upload is unguessable, so any capability for put that allows the upload's object may
// continue it.
func (g *Handlers) Endpoints() []exchange.Endpoint {
	return []exchange.Endpoint{
		{
			ID: "putObject", Name: "object", Methods: []string{http.MethodPut}, Path: "/o/{b3}",
			On: exchange.OnPublic, Op: capability.Put, Upload: true,
			Doc: "Stores the body if it has that address.",
			More: "The body is not read if the node has the object. Nothing is visible before it is verified and " +
				"durable.",
			Params:  putParams,
			Headers: []string{"Content-Encoding", "Expect", "If-Match", "If-None-Match"},
			Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
			Answers: append(storedAnswers, exchange.Reply{
				Code: http.StatusPermanentRedirect, Headers: []string{"Location", "Cache-Control"},
				Doc: "the address in lowercase digits",
			}),
			Fails: append(putFails, status.BadAddress, status.Precondition),
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.putObject(w, r, in.Rest, in.Query)
			},
		},
		{
			ID: "postObject", Name: "objects", Methods: exchange.Posting, Path: "/o",
			On: exchange.OnPublic, Op: capability.Put, Upload: true,
			Doc: "Stores the body and answers with its address.",
			More: "A capability that is limited to objects does not allow it, because the address is known only at " +
				"the end of the body.",
			Params:  putParams,
			Headers: []string{"Content-Encoding", "Expect"},
			Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
			Answers: storedAnswers, Fails: putFails,
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.postObject(w, r, in.Query)
			},
		},
		g.treeEndpoint(), g.pageEndpoint(),
		{
			ID: "beginUpload", Name: "uploads", Methods: exchange.Posting, Path: "/u",
			On: exchange.OnPublic, Op: capability.Put, Object: expected,
			Doc: "Starts an upload in parts, which survives cut connections and restarts.",
			More: "If Upload-Expect names an object that the node has, the answer is that object and no upload " +
				"starts. A capability that is limited to objects needs Upload-Expect.",
			Params:  putParams,
			Headers: []string{uploadLength, uploadExpect},
			Answers: []exchange.Reply{
				{Code: http.StatusCreated, Headers: append([]string{"Location"}, uploadHeaders...), Doc: "the upload"},
				{
					Code: http.StatusOK, Payload: exchange.JSONBody[api.Stored](),
					Headers: []string{"Location", "Cache-Control"}, Doc: "the node has the object",
				},
			},
			Fails: []status.Outcome{
				status.BadAddress, status.BadDigest, status.Unsupported, status.NotAllowed, status.Quota, status.Denied,
				status.NoSpace,
			},
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.beginUpload(w, r, in.Query)
			},
		},
		{
			ID: "optionsUploads", Name: "uploads", Methods: []string{http.MethodOptions}, Path: "/u", On: exchange.OnPublic,
			Doc: "Lists the methods and the media type of uploads in parts.", Answers: optionsAnswers,
			Serve: optionsUploads(http.MethodPost),
		},
		{
			ID: "optionsUpload", Name: "upload", Methods: []string{http.MethodOptions}, Path: "/u/{id}",
			On:  exchange.OnPublic,
			Doc: "Lists the methods and the media type of one upload.", Answers: optionsAnswers,
			Serve: optionsUploads(http.MethodHead, http.MethodPatch, http.MethodDelete),
		},
		{
			ID: "uploadState", Name: "upload", Methods: []string{http.MethodHead}, Path: "/u/{id}",
			On: exchange.OnPublic, Op: capability.Put, Target: exchange.TargetByHandler,
			Doc: "Returns the state of an upload.",
			Answers: []exchange.Reply{{
				Code: http.StatusOK, Headers: append([]string{"Location"}, uploadHeaders...),
				Doc: "Upload-Offset bytes are durable; Location is set once the object is stored",
			}},
			Fails: []status.Outcome{status.NotFound, status.Gone, status.Unsupported},
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.uploadState(w, r, in.Rest)
			},
		},
		{
			ID: "continueUpload", Name: "upload", Methods: []string{http.MethodPatch}, Path: "/u/{id}",
			On: exchange.OnPublic, Op: capability.Put, Target: exchange.TargetByHandler, Upload: true,
			Doc:     "Appends a part at Upload-Offset. If the connection is cut, the bytes that arrived stay.",
			More:    "The last part stores the object, and its answer describes the object.",
			Headers: []string{uploadOffset, "Content-Type"},
			Body:    []exchange.Payload{{Media: uploadMedia}},
			Answers: []exchange.Reply{
				{Code: http.StatusNoContent, Headers: uploadHeaders, Doc: "the part is durable"},
				{
					Code: http.StatusCreated, Payload: exchange.JSONBody[api.Stored](),
					Headers: append([]string{"Location"}, uploadHeaders...), Doc: "the object is stored",
				},
				{
					Code: http.StatusOK, Payload: exchange.JSONBody[api.Stored](),
					Headers: append([]string{"Location"}, uploadHeaders...), Doc: "the node had the object already",
				},
			},
			ErrorHeaders: []string{uploadOffset, uploadLength, uploadExpires},
			Fails:        append(putFails, status.NotFound, status.Gone, status.Conflict),
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.continueUpload(w, r, in.Rest)
			},
		},
		{
			ID: "removeUpload", Name: "upload", Methods: []string{http.MethodDelete}, Path: "/u/{id}",
			On: exchange.OnPublic, Op: capability.Put, Target: exchange.TargetByHandler,
			Doc: "Removes an upload and its bytes.",
			Answers: []exchange.Reply{{
				Code: http.StatusNoContent, Headers: []string{"Cache-Control"}, Doc: "the upload is removed",
			}},
			Fails: []status.Outcome{status.NotFound, status.Gone, status.Conflict, status.Unsupported},
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return g.removeUpload(w, r, in.Rest)
			},
		},
	}
}

// The parameters, answers and outcomes that all endpoints of uploads share.
var (
	putParams = []exchange.Param{
		{Name: "pin", Kind: exchange.BoolParam, Doc: "pins the object; if missing, it is pinned if the capability allows it"},
		{
			Name: "label", Kind: exchange.AnyTextParam,
			Doc: "the pin's label, whose quota the object counts against; if missing, the label that the capability is bound to",
		},
	}
	storedAnswers = []exchange.Reply{
		{
			Code: http.StatusCreated, Payload: exchange.JSONBody[api.Stored](),
			Headers: []string{"Location", "Cache-Control"}, Doc: "the object is stored",
		},
		{
			Code: http.StatusOK, Payload: exchange.JSONBody[api.Stored](),
			Headers: []string{"Location", "Cache-Control"}, Doc: "the node had the object already",
		},
	}
	optionsAnswers = []exchange.Reply{{
		Code: http.StatusNoContent, Headers: []string{"Allow", "Accept-Patch"}, Doc: "the supported methods and media type",
	}}
	putFails = []status.Outcome{
		status.BodyCap, status.DecompressCap, status.BadDigest, status.Unsupported, status.NotAllowed,
		status.Quota, status.Denied, status.NoSpace, status.Timeout, status.Canceled,
	}
	uploadHeaders = []string{uploadOffset, uploadLength, uploadExpires, "Cache-Control"}
)

// optionsUploads returns a handler of OPTIONS for a path with these methods.
func optionsUploads(methods ...string) exchange.Handler {
	return func(w *exchange.Response, _ *http.Request, _ exchange.Input) error {
		h := w.Header()
		h.Set("Allow", strings.Join(append([]string{http.MethodOptions}, methods...), ", "))
		h.Set("Accept-Patch", uploadMedia) // RFC 5789 §3.1
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}
