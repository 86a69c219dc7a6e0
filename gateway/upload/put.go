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

// putObject answers PUT /o/{b3}: the body is stored if it is the object of that
// address. An object that is here whole is not read again.
func (g *Handlers) putObject(w *exchange.Response, r *http.Request, rest string, q exchange.Params) error {
	root, lower, err := exchange.ParseObject(rest)
	switch {
	case lower != "":
		w.LeaveBody(r)
		return w.Redirect(r, http.StatusPermanentRedirect, "/o/"+lower)
	case err != nil:
		return err
	case root.IsZero(): // which everywhere below stands for any address
		return noSuchBytes(root)
	}
	w.Root = root
	o, err := g.uploadOptions(w, r, q, root)
	if err != nil {
		return err
	}
	if r.Header.Get("Content-Range") != "" { // RFC 9110 §14.4: the rest would look like the whole
		return status.Errorf(status.BadRequest, "PUT takes the whole object, not a Content-Range of it; an upload in pieces begins with POST /u")
	}
	up := g.uploads
	if match, none := r.Header.Values("If-Match"), r.Header.Values("If-None-Match"); len(match)+len(none) > 0 {
		_, here, err := up.Present(r.Context(), root, Options{Length: -1})
		if err != nil {
			return err
		}
		etag := exchange.ETag(root)
		matches := here && exchange.Listed(match, etag, true)
		if len(match) > 0 && !matches || here && exchange.Listed(none, etag, false) {
			return status.Errorf(status.Precondition, "If-Match or If-None-Match does not hold for %s", root)
		}
	}
	found := o
	found.Length = -1 // nobody reads a body that is not needed
	s, here, err := g.present(w, r, root, found)
	if err != nil {
		return err
	}
	if !here {
		if s, err = g.receive(w, r, o); err != nil {
			return err
		}
	}
	w.LeaveBody(r)
	return answerStored(w, r, s)
}

// noSuchBytes refuses an address that nobody knows bytes for.
func noSuchBytes(root b3.Root) error {
	return status.Errorf(status.BadDigest, "no bytes are known that hash to %s; an upload of any bytes is POST /o, or /u without %s", root, uploadExpect)
}

// present tells of an object that is here whole, and pins it as o says if it is
// what the client says that it has, and may store.
func (g *Handlers) present(w *exchange.Response, r *http.Request, root b3.Root, o Options) (s api.Stored, here bool, err error) {
	up := g.uploads
	s, here, err = up.Present(r.Context(), root, Options{Length: o.Length})
	switch {
	case err != nil || !here:
		return s, false, err
	case o.Length >= 0 && o.Length != s.Size:
		return s, false, status.Errorf(status.BadDigest, "%s has %d bytes, not the %d that are announced", root, s.Size, o.Length)
	}
	if err := w.AllowsLength(s.Size); err != nil || !o.Pin {
		return s, err == nil, err
	}
	return up.Present(r.Context(), root, o)
}

// postObject answers POST /o: the body is stored, and the answer has its
// address.
func (g *Handlers) postObject(w *exchange.Response, r *http.Request, q exchange.Params) error {
	o, err := g.uploadOptions(w, r, q, b3.Root{})
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
	defer b.End()
	body, done, err := g.bodies.Decode(r.Header, b, -1)
	if err != nil {
		return api.Stored{}, err
	}
	defer done()
	s, err := g.uploads.Put(r.Context(), w.Within(body), o)
	return s, err
}

// uploadOptions are what a request asks for, and may: pinning needs an
// operation of its own in the capability. Who does not say whether to pin gets
// what the capability allows.
func (g *Handlers) uploadOptions(w *exchange.Response, r *http.Request, q exchange.Params, root b3.Root) (Options, error) {
	o := Options{Length: exchange.BodyBytes(r), Expect: root, Label: q.Text("label")}
	if err := g.takesUploads(); err != nil {
		return o, err
	}
	if err := g.denylist.Object(root); err != nil {
		return o, err
	}
	if e := r.Header.Get("Expect"); e != "" && !strings.EqualFold(e, "100-continue") {
		return o, status.Errorf(status.BadRequest, "Expect: %s is not known here; leave it out", exchange.Clip(e))
	}
	if err := w.AllowsLength(o.Length); err != nil {
		return o, err
	}
	pin := q.Text("pin")
	if pin == "false" {
		if o.Label != "" {
			return o, status.Errorf(status.BadRequest, "label is of a pin, and pin is false; leave one of the two out")
		}
		return o, nil
	}
	err := w.Allows(r, capability.Ask{Op: capability.Pin, Object: o.Expect, Label: o.Label, Bytes: o.Length})
	if pin == "" && o.Label == "" && status.Of(err) == status.Forbidden {
		return o, nil
	}
	o.Pin, o.Label = err == nil, w.Label(o.Label)
	return o, err
}

// answerStored says which object it was.
func answerStored(w *exchange.Response, r *http.Request, s api.Stored) error {
	w.Root = s.Root
	code := http.StatusOK
	if s.New {
		code = http.StatusCreated
	}
	w.Header().Set("Location", "/o/"+s.Root.String())
	return w.SendJSON(r, code, s)
}
