package upload

import (
	"net/http"
	"strings"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

func putObjectEndpoint(serve exchange.Handler) exchange.Endpoint {
	return exchange.Endpoint{
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
			Doc: "the address in its one form, b3: and 64 lowercase digits",
		}),
		Fails: append(putFails, status.BadAddress, status.Precondition),
		Serve: serve,
	}
}

// putObject serves PUT /o/{b3}. It stores the body if the body has that address. It does not
// read the body of an object that the store has.
func (g *Handlers) putObject(w *exchange.Response, r *http.Request, in exchange.Input) error {
	root, canonical, err := exchange.ParseObject(in.Rest)
	switch {
	case canonical != "":
		w.AbandonBody(r)
		return w.Redirect(r, http.StatusPermanentRedirect, "/o/"+canonical)
	case err != nil:
		return err
	case root.IsZero(): // a zero Expect would accept any bytes
		return noSuchBytes(root)
	}
	w.Root = root
	o, err := g.uploadOptions(w, r, in.Query, root)
	if err != nil {
		return err
	}
	if r.Header.Get("Content-Range") != "" { // RFC 9110 §14.4: the rest would look like the whole
		return status.Errorf(status.BadRequest,
			"cannot store a part of an object: the request has Content-Range. Start an upload in parts with POST /u")
	}
	up := g.uploads
	if match, none := r.Header.Values("If-Match"), r.Header.Values("If-None-Match"); len(match)+len(none) > 0 {
		_, here, err := up.Present(r.Context(), root, Options{Length: -1})
		if err != nil {
			return err
		}
		etag := exchange.ETag(root)
		matches := here && exchange.MatchesTag(match, etag, true)
		if len(match) > 0 && !matches || here && exchange.MatchesTag(none, etag, false) {
			return status.Errorf(status.Precondition,
				"the object was not stored: If-Match or If-None-Match is not true of "+
					"its ETag %s. Leave out the header to store it", etag)
		}
	}
	found := o
	found.Length = -1 // the body is not read, so its length does not matter
	s, here, err := g.present(w, r, root, found)
	if err != nil {
		return err
	}
	if !here {
		if s, err = g.receive(w, r, o); err != nil {
			return err
		}
	}
	w.AbandonBody(r)
	return answerStored(w, r, s)
}

// noSuchBytes returns the error for the zero address: no bytes with that address are known.
func noSuchBytes(root b3.Root) error {
	return status.Errorf(status.BadDigest,
		"cannot store an object as %s: no bytes with that address are known. Use POST /o, or POST /u without %s",
		root, uploadExpect)
}

// present reports whether the store has the whole object. If the object has the announced
// length and the capability allows its size, present pins it as o says.
func (g *Handlers) present(
	w *exchange.Response, r *http.Request, root b3.Root, o Options,
) (s api.Stored, here bool, err error) {
	up := g.uploads
	s, here, err = up.Present(r.Context(), root, Options{Length: o.Length})
	switch {
	case err != nil || !here:
		return s, false, err
	case o.Length >= 0 && o.Length != s.Size:
		return s, false, status.Errorf(status.BadDigest,
			"cannot store the upload as %s: the object has %d bytes, not the announced %d", root, s.Size, o.Length)
	}
	if err := w.CheckLength(s.Size); err != nil || !o.Pin {
		return s, err == nil, err
	}
	return up.Present(r.Context(), root, o)
}

func postObjectEndpoint(serve exchange.Handler) exchange.Endpoint {
	return exchange.Endpoint{
		ID: "postObject", Name: "objects", Methods: exchange.Posting, Path: "/o",
		On: exchange.OnPublic, Op: capability.Put, Upload: true,
		Doc: "Stores the body and answers with its address.",
		More: "A capability that is limited to objects does not allow it, because the address is known only at " +
			"the end of the body.",
		Params:  putParams,
		Headers: []string{"Content-Encoding", "Expect"},
		Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
		Answers: storedAnswers, Fails: putFails,
		Serve: serve,
	}
}

// postObject serves POST /o. It stores the body and answers with its address.
func (g *Handlers) postObject(w *exchange.Response, r *http.Request, in exchange.Input) error {
	o, err := g.uploadOptions(w, r, in.Query, b3.Root{})
	if err != nil {
		return err
	}
	s, err := g.receive(w, r, o)
	if err != nil {
		return err
	}
	return answerStored(w, r, s)
}

// receive stores the body of a request.
func (g *Handlers) receive(w *exchange.Response, r *http.Request, o Options) (api.Stored, error) {
	b := g.bodies.Open(w, r)
	defer b.Stop()
	body, done, err := g.bodies.Decode(w.From, r.Header, b, -1)
	if err != nil {
		return api.Stored{}, err
	}
	defer done()
	s, err := g.uploads.Put(r.Context(), w.LimitBody(body), o)
	return s, err
}

// putFails are the failures of every endpoint that stores its body.
var putFails = []status.Outcome{
	status.BodyCap, status.DecompressCap, status.BadDigest, status.Unsupported, status.NotAllowed,
	status.Quota, status.Denied, status.NoSpace, status.Timeout, status.Canceled,
}

// putParams are the parameters that uploadOptions reads.
var putParams = []exchange.Param{
	{Name: "pin", Kind: exchange.BoolParam,
		Doc: "pins the object; if missing, it is pinned if the capability allows it"},
	{
		Name: "label", Kind: exchange.AnyTextParam,
		Doc: "the pin's label, whose quota the object counts against; if missing, the label that the capability is " +
			"bound to",
	},
}

// uploadOptions returns the options that a request asks for and its capability allows. A pin needs another operation in
// the capability. A request that does not say whether to pin pins if the capability allows it.
func (g *Handlers) uploadOptions(
	w *exchange.Response, r *http.Request, q exchange.Params, root b3.Root,
) (Options, error) {
	o := Options{Length: exchange.BodyBytes(r), Expect: root, Label: q.Text("label")}
	if err := g.takesUploads(); err != nil {
		return o, err
	}
	if err := g.denylist.Object(root); err != nil {
		return o, err
	}
	if e := r.Header.Get("Expect"); e != "" && !strings.EqualFold(e, "100-continue") {
		return o, status.Errorf(status.BadRequest, "the header Expect is %q, which is unknown. Leave it out",
			exchange.Clip(e))
	}
	if err := w.CheckLength(o.Length); err != nil {
		return o, err
	}
	pin := q.Text("pin")
	if pin == "false" {
		if o.Label != "" {
			return o, status.Errorf(status.BadRequest,
				"parameter label needs a pin, and pin is false. Leave one of the two out")
		}
		return o, nil
	}
	err := w.Authorize(r, capability.Request{Op: capability.Pin, Object: o.Expect, Label: o.Label, Bytes: o.Length})
	if pin == "" && o.Label == "" && status.Of(err) == status.Forbidden {
		return o, nil
	}
	o.Pin, o.Label = err == nil, w.Label(o.Label)
	return o, err
}

// storedAnswers are the answers of answerStored.
var storedAnswers = []exchange.Reply{
	{
		Code: http.StatusCreated, Payload: exchange.JSONBody[api.Stored](),
		Headers: []string{"Location", "Cache-Control"}, Doc: "the object is stored",
	},
	{
		Code: http.StatusOK, Payload: exchange.JSONBody[api.Stored](),
		Headers: []string{"Location", "Cache-Control"}, Doc: "the node had the object already",
	},
}

// answerStored answers with the address and the size of a stored object.
func answerStored(w *exchange.Response, r *http.Request, s api.Stored) error {
	w.Root = s.Root
	code := http.StatusOK
	if s.New {
		code = http.StatusCreated
	}
	w.Header().Set("Location", w.Prefix+"/o/"+s.Root.String())
	return w.SendJSON(r, code, s)
}
