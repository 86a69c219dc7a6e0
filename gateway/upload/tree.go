package upload

import (
	"mime"
	"net/http"
	"reflect"
	"slices"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// postTree serves POST /b3. It stores the directory that the body holds, and answers with its
// address.
func (g *Handlers) postTree(w *exchange.Response, r *http.Request, in exchange.Input) error {
	t, boundary, err := archiveOf(r)
	if err != nil {
		return err
	}
	t.Ratio, t.OnBadEntry = g.bodies.Ratio(), api.OnBadEntry(in.Query.Text("on_bad_entry"))
	o := Options{Length: -1, Label: in.Query.Text("label")}
	if !w.NeedsToken {
		if o, err = g.treeOptions(w, r, in.Query); err != nil {
			return err
		}
	} else if err := g.takesUploads(); err != nil {
		return err
	}
	b := g.bodies.Open(w, r)
	defer b.Stop()
	body, done, err := g.bodies.Decode(w.From, r.Header, b, -1)
	if err != nil {
		return err
	}
	defer done()
	if t.Format != Form {
		t.Body = w.LimitBody(body)
	} else {
		f := newForm(body, boundary, w, r)
		if err := f.begin(); err != nil {
			return err
		}
		if o, err = g.treeOptions(w, r, in.Query); err != nil {
			return err
		}
		t.Next = f.next
	}
	t.Count = w.LimitFiles()
	added, err := g.uploads.PutTree(r.Context(), t, o)
	if err != nil {
		return err
	}
	w.AbandonBody(r)
	return answerTree(w, r, added)
}

// treeOptions returns the options that a request asks for and its capability allows, and records
// the request in the audit log. A capability that is limited to objects allows none, because the
// address is known only at the end.
func (g *Handlers) treeOptions(w *exchange.Response, r *http.Request, q exchange.Params) (Options, error) {
	o, err := g.uploadOptions(w, r, q, b3.Root{})
	if err != nil {
		return o, err
	}
	o.Length = -1 // of the archive, which is not stored
	e := w.Event("open", r)
	e.Op, e.Bytes, e.Label = string(capability.Put), max(0, r.ContentLength), o.Label
	return o, w.Record(r, e)
}

// archiveOf returns the format of a request's body, and the boundary of a form.
func archiveOf(r *http.Request) (Tree, string, error) {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	switch media {
	case exchange.MediaTar, "application/tar":
		return Tree{Format: Tar}, "", nil
	case exchange.MediaZip, "application/x-zip-compressed":
		return Tree{Format: Zip}, "", nil
	case exchange.MediaForm:
		boundary := params["boundary"]
		if boundary == "" || len(boundary) > maxBoundary {
			return Tree{}, "", status.Errorf(status.BadRequest,
				"cannot read the form: its Content-Type has no boundary of 1 to %d characters. Let the program "+
					"that makes the form set the header", maxBoundary)
		}
		return Tree{Format: Form}, boundary, nil
	}
	return Tree{}, "", status.Errorf(status.Unsupported,
		"cannot read the directory: its type is %q. Send a tar (Content-Type: %s), a zip (%s) or a form (%s)",
		exchange.Clip(r.Header.Get("Content-Type")), exchange.MediaTar, exchange.MediaZip, exchange.MediaForm)
}

// answerTree answers with a stored directory: a browser goes there, and a program gets its address.
func answerTree(w *exchange.Response, r *http.Request, added api.Added) error {
	w.Root = added.Root
	h := w.Header()
	h.Set("Location", w.Prefix+"/b3/"+added.Root.String()+"/")
	if w.Pages != exchange.NoPages && exchange.WantsPage(r) {
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Length", "0")
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	code := http.StatusOK
	if added.New > 0 {
		code = http.StatusCreated
	}
	return w.SendJSON(r, code, added)
}

// badEntryParam returns the parameter of an add for entries that no directory can hold.
func badEntryParam() []exchange.Param {
	return slices.DeleteFunc(exchange.ParamsOf(reflect.TypeFor[api.AddOptions]()), func(p exchange.Param) bool {
		return p.Name != "on_bad_entry"
	})
}

// treeEndpoint is the route of POST /b3.
func treeEndpoint(serve exchange.Handler) exchange.Endpoint {
	return exchange.Endpoint{
		ID: "postTree", Name: "open", Methods: exchange.Posting, Path: "/b3",
		On: exchange.OnPublic, Op: capability.Put, Upload: true, TokenInForm: true,
		RecordsItself: true, ErrorPages: true,
		Doc: "Stores a directory and answers with its address.",
		More: "The body is a tar, a zip, or a form with the files (`" + exchange.MediaForm +
			"`), whose names are their " +
			"paths. The directory is what the archive would unpack to. Entries come in any order, and of " +
			"several with one path the " +
			"last counts. A form may bring the capability in the field `token`, before the first file. A browser is " +
			"sent on to the directory. A capability that is limited to objects does not allow it.",
		Params:  append(badEntryParam(), putParams...),
		Headers: []string{"Content-Encoding", "Expect", "Content-Type"},
		Body: []exchange.Payload{
			{Media: exchange.MediaTar}, {Media: exchange.MediaZip}, {Media: exchange.MediaForm},
		},
		Answers: []exchange.Reply{
			{
				Code: http.StatusCreated, Payload: exchange.JSONBody[api.Added](),
				Headers: []string{"Location", "Cache-Control"}, Doc: "the directory is stored",
			},
			{
				Code: http.StatusOK, Payload: exchange.JSONBody[api.Added](),
				Headers: []string{"Location", "Cache-Control"}, Doc: "the node had all of it already",
			},
			{
				Code: http.StatusSeeOther, Headers: []string{"Location", "Cache-Control"},
				Doc: "the directory is stored, and the client prefers its page",
			},
		},
		Fails: putFails,
		Serve: serve,
	}
}
