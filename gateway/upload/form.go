package upload

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

const (
	maxToken    = 8 << 10 // bytes of the field token; a capability has at most 4 KiB, and 5.5 KiB as text
	maxBoundary = 70      // characters, RFC 2046 §5.1.1
)

// The name of the field with the capability.
const tokenField = "token"

// form reads the files of a multipart/form-data body. One goroutine uses it.
type form struct {
	parts *multipart.Reader
	w     *exchange.Response
	r     *http.Request
	body  *formBody
	first *multipart.Part // the first file, which begin has found; nil: next has returned it
}

// formBody is the body of a form. It is limited as soon as the capability is known, and knows whether the form has
// its end: multipart.Reader takes a body that was cut behind a boundary for a whole one.
type formBody struct {
	r     io.Reader
	last  []byte // the line that ends the form, with the line break before it
	tail  []byte // the last bytes that were read, fewer than last has
	ended bool   // last was read
}

func newFormBody(r io.Reader, boundary string) *formBody {
	return &formBody{r: r, last: []byte("\n--" + boundary + "--"), tail: []byte("\n")}
}

func (b *formBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if got := p[:n]; !b.ended {
		across := append(b.tail, got[:min(n, len(b.last)-1)]...)
		b.ended = bytes.Contains(across, b.last) || bytes.Contains(got, b.last)
		if n >= len(b.last)-1 {
			across = got
		}
		b.tail = append(b.tail[:0], across[max(0, len(across)-len(b.last)+1):]...)
	}
	return n, err
}

func newForm(body io.Reader, boundary string, w *exchange.Response, r *http.Request) *form {
	b := newFormBody(body, boundary)
	return &form{parts: multipart.NewReader(b, boundary), body: b, w: w, r: r}
}

// begin reads the form up to its first file. It verifies the capability in the field token, if the
// header of the request has none.
func (f *form) begin() error {
	for {
		p, err := f.part()
		if errors.Is(err, io.EOF) {
			return errNoFiles()
		}
		if err != nil {
			return err
		}
		switch {
		case p.FormName() == tokenField && !isFile(p):
			if err := f.token(p); err != nil {
				return err
			}
		case !isFile(p):
			return status.Errorf(status.BadRequest,
				"the form has the field %q, which is unknown. Send the files, and the field %s before them",
				exchange.Clip(p.FormName()), tokenField)
		case f.w.NeedsToken:
			return status.Errorf(status.Unauthenticated, "the form has no capability before its first file. "+
				"Put the field %s first, or send \"Authorization: Bearer TOKEN\"", tokenField)
		default:
			f.first = p
			f.body.r = f.w.LimitBody(f.body.r)
			return nil
		}
	}
}

func errNoFiles() error {
	return status.Errorf(status.BadRequest, "the form has no files. Choose some, and send it again")
}

// token verifies the capability in a field.
func (f *form) token(p *multipart.Part) error {
	text, err := io.ReadAll(io.LimitReader(p, maxToken+1))
	if err != nil {
		return formError(err)
	}
	if len(text) > maxToken {
		return status.Errorf(status.Unauthenticated, "the field %s is longer than %d bytes, so it is no capability",
			tokenField, maxToken)
	}
	return f.w.Present(f.r, strings.TrimSpace(string(text)), capability.Request{
		Op: capability.Put, Label: f.r.URL.Query().Get(exchange.LabelParam), Bytes: -1,
	})
}

// part returns the next part, without the empty one that a browser sends for a field of files in
// which nothing was chosen.
func (f *form) part() (*multipart.Part, error) {
	for {
		p, err := f.parts.NextRawPart()
		if errors.Is(err, io.EOF) && f.body.ended {
			return nil, io.EOF
		}
		if err != nil {
			return nil, formError(err)
		}
		if !isFile(p) || fileName(p) != "" {
			return p, nil
		}
		var one [1]byte
		if n, err := io.ReadFull(p, one[:]); n > 0 || err != io.EOF {
			return nil, status.Errorf(status.BadRequest, "the form has a file without a name. Name it (filename=…)")
		}
	}
}

// next returns the next file, and io.EOF after the last one.
func (f *form) next() (name string, body io.Reader, err error) {
	p := f.first
	if f.first = nil; p == nil {
		if p, err = f.part(); err != nil {
			return "", nil, err
		}
	}
	if !isFile(p) {
		if p.FormName() == tokenField {
			return "", nil, status.Errorf(status.BadRequest,
				"the field %s comes behind a file. Put it first", tokenField)
		}
		return "", nil, status.Errorf(status.BadRequest,
			"the form has the field %q, which is unknown. Send files alone",
			exchange.Clip(p.FormName()))
	}
	return fileName(p), status.Reader(p, formError), nil
}

// isFile reports whether a part is a file, as its filename says.
func isFile(p *multipart.Part) bool {
	_, ok := disposition(p)["filename"]
	return ok
}

// fileName returns the path of a file as the form has it. Part.FileName would drop all but its last
// element. Browsers write three characters as percent-encoded bytes (HTML, "multipart/form-data
// encoding algorithm"), and no others.
func fileName(p *multipart.Part) string { return formEscapes.Replace(disposition(p)["filename"]) }

var formEscapes = strings.NewReplacer("%22", `"`, "%0D", "\r", "%0A", "\n")

func disposition(p *multipart.Part) map[string]string {
	_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	if err != nil {
		return nil
	}
	return params
}

// formError returns err as bad_request. An outcome that err already has stays. It never wraps io.EOF, since a form
// that fails is not at its end.
func formError(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if o := status.Of(err); o != status.Internal {
		return status.Errorf(o, "form: %w", err)
	}
	return status.Errorf(status.BadRequest, "cannot read the form: %w. Check its boundary and that it is whole", err)
}
