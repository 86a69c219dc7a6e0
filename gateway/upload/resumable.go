package upload

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// The headers of resumable uploads (docs/http.md).
const (
	uploadLength  = "Upload-Length"  // bytes of the whole object
	uploadOffset  = "Upload-Offset"  // durable bytes
	uploadExpect  = "Upload-Expect"  // the address that the whole object must have
	uploadExpires = "Upload-Expires" // when the upload is removed
)

// uploadMedia is the media type of a part.
const uploadMedia = "application/offset+octet-stream"

// uploadHeaders are the headers of an answer with the state of an upload.
var uploadHeaders = []string{uploadOffset, uploadLength, uploadExpires, tusResumable, "Cache-Control"}

func beginUploadEndpoint(serve exchange.Handler) exchange.Endpoint {
	return exchange.Endpoint{
		ID: "beginUpload", Name: "uploads", Methods: exchange.Posting, Path: "/u",
		On: exchange.OnPublic, Op: capability.Put, Object: expected,
		Doc: "Starts an upload in parts, which survives cut connections and restarts.",
		More: "If Upload-Expect names an object that the node has, the answer is that object and no upload " +
			"starts. A capability that is limited to objects needs Upload-Expect.",
		Params:  putParams,
		Headers: []string{uploadLength, uploadExpect, tusResumable},
		Answers: []exchange.Reply{
			{Code: http.StatusCreated, Headers: append([]string{"Location"}, uploadHeaders...), Doc: "the upload"},
			{
				Code: http.StatusOK, Payload: exchange.JSONBody[api.Stored](),
				Headers: []string{"Location", tusResumable, "Cache-Control"}, Doc: "the node has the object",
			},
		},
		ErrorHeaders: tusErrorHeaders,
		Fails: []status.Outcome{
			status.BadAddress, status.BadDigest, status.Unsupported, status.NotAllowed, status.Quota, status.Denied,
			status.NoSpace, status.Precondition,
		},
		Serve: resumable(serve),
	}
}

// beginUpload serves POST /u. If the store has the expected object, beginUpload answers with it
// and starts no upload. An upload of no bytes is complete at once, as no part follows.
func (g *Handlers) beginUpload(w *exchange.Response, r *http.Request, in exchange.Input) error {
	if err := refuseExtensions(r.Header); err != nil {
		return err
	}
	length, err := bytesHeader(r.Header, uploadLength)
	if err != nil {
		return err
	}
	root, err := expectHeader(r.Header)
	if err != nil {
		return err
	}
	o, err := g.uploadOptions(w, r, in.Query, root)
	if err != nil {
		return err
	}
	o.Length = length
	if err := w.CheckLength(length); err != nil {
		return err
	}
	if !root.IsZero() {
		w.Root = root
		switch s, here, err := g.present(w, r, root, o); {
		case err != nil:
			return err
		case here:
			return answerStored(w, r, s)
		}
	}
	u, err := g.uploads.New(r.Context(), w.Grant, o)
	if err != nil {
		return err
	}
	if u.Length == 0 {
		if u, err = g.uploads.Append(r.Context(), w.Grant, u.ID, 0, http.NoBody); err != nil {
			return err
		}
		w.Root = u.Stored.Root
	}
	w.Header().Set("Location", w.Prefix+"/u/"+u.ID)
	u.describe(w.Header())
	w.WriteHeader(http.StatusCreated)
	return nil
}

func uploadStateEndpoint(serve exchange.Handler) exchange.Endpoint {
	return exchange.Endpoint{
		ID: "uploadState", Name: "upload", Methods: []string{http.MethodHead}, Path: "/u/{id}",
		On: exchange.OnPublic, Op: capability.Put, Target: exchange.TargetByHandler,
		Doc: "Returns the state of an upload.",
		Answers: []exchange.Reply{{
			Code: http.StatusOK, Headers: append([]string{"Location"}, uploadHeaders...),
			Doc: "Upload-Offset bytes are durable; Location is set once the object is stored",
		}},
		Headers: []string{tusResumable}, ErrorHeaders: tusErrorHeaders,
		Fails: []status.Outcome{status.NotFound, status.Gone, status.Unsupported, status.Precondition},
		Serve: resumable(serve),
	}
}

// uploadState serves HEAD /u/{id}.
func (g *Handlers) uploadState(w *exchange.Response, r *http.Request, in exchange.Input) error {
	u, err := g.upload(w, r, in.Rest)
	if err != nil {
		return err
	}
	u.describe(w.Header())
	if u.Stored != nil {
		w.Header().Set("Location", w.Prefix+"/o/"+u.Stored.Root.String())
	}
	w.Head = true
	w.WriteHeader(http.StatusOK)
	return nil
}

func continueUploadEndpoint(serve exchange.Handler) exchange.Endpoint {
	return exchange.Endpoint{
		ID: "continueUpload", Name: "upload", Methods: []string{http.MethodPatch}, Path: "/u/{id}",
		On: exchange.OnPublic, Op: capability.Put, Target: exchange.TargetByHandler, Upload: true,
		Doc: "Appends a part at Upload-Offset. If the connection is cut, the bytes that arrived stay.",
		More: "The last part stores the object, and its answer describes the object; to a client that sends " +
			"Tus-Resumable it is 204, and Location names the object.",
		Headers: []string{uploadOffset, tusResumable, "Content-Type"},
		Body:    []exchange.Payload{{Media: uploadMedia}},
		Answers: []exchange.Reply{
			{
				Code: http.StatusNoContent, Headers: append([]string{"Location"}, uploadHeaders...),
				Doc: "the part is durable; Location is set once the object is stored",
			},
			{
				Code: http.StatusCreated, Payload: exchange.JSONBody[api.Stored](),
				Headers: append([]string{"Location"}, uploadHeaders...), Doc: "the object is stored",
			},
			{
				Code: http.StatusOK, Payload: exchange.JSONBody[api.Stored](),
				Headers: append([]string{"Location"}, uploadHeaders...), Doc: "the node had the object already",
			},
		},
		ErrorHeaders: append([]string{uploadOffset, uploadLength, uploadExpires}, tusErrorHeaders...),
		Fails:        append(putFails, status.NotFound, status.Gone, status.Conflict, status.Precondition),
		Serve:        resumable(serve),
	}
}

// continueUpload serves PATCH /u/{id}. Every answer has the upload's Upload-Offset, except when
// the upload is unknown.
func (g *Handlers) continueUpload(w *exchange.Response, r *http.Request, in exchange.Input) error {
	offset, err := bytesHeader(r.Header, uploadOffset)
	if err != nil {
		return err
	}
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(media), uploadMedia) {
		return status.Errorf(status.Unsupported,
			"cannot read the part: its type is %q. Send Content-Type: %s", exchange.Clip(media), uploadMedia)
	}
	if name, err := exchange.EncodingOf(r.Header); err != nil || name != "" {
		return status.Errorf(status.Unsupported,
			"cannot read the part: it has a Content-Encoding. Send it plain; PUT /o and POST /o accept gzip and zstd")
	}
	u, err := g.upload(w, r, in.Rest)
	if err != nil {
		return err
	}
	w.Header().Set(uploadOffset, strconv.FormatInt(u.Offset, 10))
	switch {
	case offset != u.Offset:
		return status.Errorf(status.Conflict,
			"cannot append at byte %d: the upload has %d bytes. Send the part that begins there", offset, u.Offset)
	case r.ContentLength > u.Length-offset:
		return status.Errorf(status.BodyCap, "the part is too long: it has %d bytes, and the upload needs %d more",
			r.ContentLength, u.Length-offset)
	}
	if err := w.CheckLength(u.Length); err != nil {
		return err
	}
	b := g.bodies.Open(w, r)
	defer b.Stop()
	u, err = g.uploads.Append(r.Context(), w.Grant, in.Rest, offset, b)
	if u.ID != "" {
		u.describe(w.Header())
	}
	if err != nil {
		return err
	}
	switch {
	case u.Stored != nil && r.Header.Get(tusResumable) == "":
		return answerStored(w, r, *u.Stored)
	case u.Stored != nil:
		w.Root = u.Stored.Root
		w.Header().Set("Location", w.Prefix+"/o/"+u.Stored.Root.String())
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func removeUploadEndpoint(serve exchange.Handler) exchange.Endpoint {
	return exchange.Endpoint{
		ID: "removeUpload", Name: "upload", Methods: []string{http.MethodDelete}, Path: "/u/{id}",
		On: exchange.OnPublic, Op: capability.Put, Target: exchange.TargetByHandler,
		Doc: "Removes an upload and its bytes.",
		Answers: []exchange.Reply{{
			Code: http.StatusNoContent, Headers: []string{tusResumable, "Cache-Control"}, Doc: "the upload is removed",
		}},
		Headers: []string{tusResumable}, ErrorHeaders: tusErrorHeaders,
		Fails: []status.Outcome{
			status.NotFound, status.Gone, status.Conflict, status.Unsupported, status.Precondition,
		},
		Serve: resumable(serve),
	}
}

// removeUpload serves DELETE /u/{id}.
func (g *Handlers) removeUpload(w *exchange.Response, r *http.Request, in exchange.Input) error {
	if _, err := g.upload(w, r, in.Rest); err != nil {
		return err
	}
	if err := g.uploads.Remove(r.Context(), in.Rest); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// upload returns an upload by its id. It checks that the request's capability allows the
// upload's expected object and label.
func (g *Handlers) upload(w *exchange.Response, r *http.Request, id string) (Upload, error) {
	if err := g.takesUploads(); err != nil {
		return Upload{}, err
	}
	if !isUploadID(id) {
		return Upload{}, noUpload(id)
	}
	u, err := g.uploads.Upload(r.Context(), id)
	if bound := w.Grant.Label; err == nil && u.Label != "" && bound != "" && u.Label != bound {
		return u, errOtherLabel(u.Label, bound)
	}
	if err == nil {
		err = w.Authorize(r, capability.Request{Op: capability.Put, Object: u.Expect, Label: u.Label, Bytes: -1})
	}
	return u, err
}

// errOtherLabel returns the error for a capability that is bound to another label than the pin of an upload.
func errOtherLabel(has, bound string) error {
	return status.Errorf(status.Forbidden,
		"cannot continue the upload: its pin has the label %q, and the capability is "+
			"for the label %q. Use a capability for that label, or begin another upload", has, bound)
}

func (g *Handlers) takesUploads() error {
	if g.uploads == nil {
		return status.Errorf(status.Unsupported, "cannot store the upload: this node accepts none")
	}
	return nil
}

// describe sets the headers that tell the state of the upload.
func (u Upload) describe(h http.Header) {
	h.Set(uploadOffset, strconv.FormatInt(u.Offset, 10))
	h.Set(uploadLength, strconv.FormatInt(u.Length, 10))
	if !u.Expires.IsZero() {
		h.Set(uploadExpires, u.Expires.UTC().Format(http.TimeFormat))
	}
	h.Set("Cache-Control", "no-store")
}

// isUploadID reports whether id has the form of an upload id: 32 lowercase hex digits.
func isUploadID(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
}

func noUpload(id string) error {
	return status.Errorf(status.NotFound, "cannot find the upload %q. Start one with POST /u", exchange.Clip(id))
}

// bytesHeader parses a required header that is a number of bytes.
func bytesHeader(h http.Header, name string) (int64, error) {
	values := h.Values(name)
	if len(values) != 1 {
		return 0, status.Errorf(status.BadRequest, "the header %s comes %d times. Send it once", name, len(values))
	}
	v := textproto.TrimString(values[0])
	if n, err := strconv.ParseUint(v, 10, 63); err == nil && strings.Trim(v, "0123456789") == "" {
		return int64(n), nil
	}
	return 0, status.Errorf(status.BadRequest,
		"the header %s is %q. Set it to a number of bytes", name, exchange.Clip(v))
}

// expectHeader parses Upload-Expect. It returns zero if the header is missing.
func expectHeader(h http.Header) (root b3.Root, err error) {
	switch values := h.Values(uploadExpect); len(values) {
	case 0:
		return root, nil
	case 1:
		if root, err = address.Root(textproto.TrimString(values[0])); err == nil && root.IsZero() {
			err = noSuchBytes(root)
		}
		return root, err
	default:
		return root, status.Errorf(status.BadRequest, "the header %s comes %d times. Send it once",
			uploadExpect, len(values))
	}
}
