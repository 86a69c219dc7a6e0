package upload

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// The headers of uploads that come in pieces (docs/http.md).
const (
	uploadLength  = "Upload-Length"  // bytes of the whole
	uploadOffset  = "Upload-Offset"  // bytes that are durable
	uploadExpect  = "Upload-Expect"  // address that the whole must have
	uploadExpires = "Upload-Expires" // when it is given up
)

// uploadMedia is what a piece is sent as.
const uploadMedia = "application/offset+octet-stream"

// beginUpload answers POST /u. An object that is here whole already is the
// answer instead.
func (g *Handlers) beginUpload(w *exchange.Response, r *http.Request, q exchange.Params) error {
	length, err := bytesHeader(r.Header, uploadLength)
	if err != nil {
		return err
	}
	root, err := expectHeader(r.Header)
	if err != nil {
		return err
	}
	o, err := g.uploadOptions(w, r, q, root)
	if err != nil {
		return err
	}
	o.Length = length
	if err := w.AllowsLength(length); err != nil {
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
	u, err := g.uploads.New(r.Context(), o)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/u/"+u.ID)
	u.describe(w.Header())
	w.WriteHeader(http.StatusCreated)
	return nil
}

// uploadState answers HEAD /u/{id}.
func (g *Handlers) uploadState(w *exchange.Response, r *http.Request, id string) error {
	u, err := g.upload(w, r, id)
	if err != nil {
		return err
	}
	u.describe(w.Header())
	if u.Stored != nil {
		w.Header().Set("Location", "/o/"+u.Stored.Root.String())
	}
	w.Head = true
	w.WriteHeader(http.StatusOK)
	return nil
}

// continueUpload answers PATCH /u/{id}. Every answer but those that know no such
// upload says how far it is.
func (g *Handlers) continueUpload(w *exchange.Response, r *http.Request, id string) error {
	offset, err := bytesHeader(r.Header, uploadOffset)
	if err != nil {
		return err
	}
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(media), uploadMedia) {
		return status.Errorf(status.Unsupported, "a piece of an upload is sent as Content-Type: %s", uploadMedia)
	}
	if name, err := exchange.EncodingOf(r.Header); err != nil || name != "" {
		return status.Errorf(status.Unsupported, "a piece of an upload is sent without Content-Encoding; PUT and POST of /o take gzip and zstd")
	}
	u, err := g.upload(w, r, id)
	if err != nil {
		return err
	}
	w.Header().Set(uploadOffset, strconv.FormatInt(u.Offset, 10))
	switch {
	case offset != u.Offset:
		return status.Errorf(status.Conflict, "the upload has %d bytes, so the next piece begins there and not at %d", u.Offset, offset)
	case r.ContentLength > u.Length-offset:
		return status.Errorf(status.BodyCap, "%d bytes are missing of the upload, and the piece has %d", u.Length-offset, r.ContentLength)
	}
	if err := w.AllowsLength(u.Length); err != nil {
		return err
	}
	b := g.bodies.Open(w, r)
	defer b.End()
	u, err = g.uploads.Append(r.Context(), id, offset, b)
	if u.ID != "" {
		u.describe(w.Header())
	}
	if err != nil {
		return err
	}
	if u.Stored != nil {
		return answerStored(w, r, *u.Stored)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// removeUpload answers DELETE /u/{id}.
func (g *Handlers) removeUpload(w *exchange.Response, r *http.Request, id string) error {
	if _, err := g.upload(w, r, id); err != nil {
		return err
	}
	if err := g.uploads.Remove(r.Context(), id); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// upload finds an upload by its id, and holds the request's capability against
// the object that it is to be and the label that it gets.
func (g *Handlers) upload(w *exchange.Response, r *http.Request, id string) (Upload, error) {
	if err := g.takesUploads(); err != nil {
		return Upload{}, err
	}
	if !isUploadID(id) {
		return Upload{}, noUpload(id)
	}
	u, err := g.uploads.Upload(r.Context(), id)
	if err == nil {
		err = w.Allows(r, capability.Ask{Op: capability.Put, Object: u.Expect, Label: u.Label, Bytes: -1})
	}
	return u, err
}

func (g *Handlers) takesUploads() error {
	if g.uploads == nil {
		return status.Errorf(status.Unsupported, "this node takes no uploads")
	}
	return nil
}

// describe says how far the upload is.
func (u Upload) describe(h http.Header) {
	h.Set(uploadOffset, strconv.FormatInt(u.Offset, 10))
	h.Set(uploadLength, strconv.FormatInt(u.Length, 10))
	if !u.Expires.IsZero() {
		h.Set(uploadExpires, u.Expires.UTC().Format(http.TimeFormat))
	}
	h.Set("Cache-Control", "no-store")
}

// isUploadID reports whether id has the form of one: 32 hex digits.
func isUploadID(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
}

func noUpload(id string) error {
	return status.Errorf(status.NotFound, "there is no upload %q; begin one with POST /u", exchange.Clip(id))
}

// bytesHeader reads a header that has to be there once, a count of bytes.
func bytesHeader(h http.Header, name string) (int64, error) {
	values := h.Values(name)
	if len(values) != 1 {
		return 0, status.Errorf(status.BadRequest, "%s has to be there once, and is there %d times", name, len(values))
	}
	v := textproto.TrimString(values[0])
	if n, err := strconv.ParseUint(v, 10, 63); err == nil && strings.Trim(v, "0123456789") == "" {
		return int64(n), nil
	}
	return 0, status.Errorf(status.BadRequest, "%s is %q, want a number of bytes", name, exchange.Clip(v))
}

// expectHeader reads Upload-Expect, zero where there is none.
func expectHeader(h http.Header) (root b3.Root, err error) {
	switch values := h.Values(uploadExpect); len(values) {
	case 0:
		return root, nil
	case 1:
		if root, err = b3.Parse(textproto.TrimString(values[0])); err == nil && root.IsZero() {
			err = noSuchBytes(root)
		}
		return root, err
	default:
		return root, status.Errorf(status.BadRequest, "%s is there %d times", uploadExpect, len(values))
	}
}
