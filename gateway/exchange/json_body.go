package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"allium/internal/limits"
	"allium/protocols/status"
)

// ReadSmall reads a whole body, which from sends, into memory. It returns body_cap for more than most bytes as
// sent, and decompress_cap for more than DecompressBytes as decoded. It reads nothing if
// Content-Length exceeds most.
func (l *Bodies) ReadSmall(from Origin, r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return nil, bodyTooLong(r.ContentLength, most)
	}
	plain := &cappedReader{r: r.Body, left: most, max: most, name: "the body"}
	body, done, err := l.Decode(from, r.Header, plain, int64(l.cfg.DecompressBytes))
	if err != nil {
		return nil, err
	}
	defer done()
	var p bytes.Buffer
	if _, err := p.ReadFrom(body); err != nil {
		return nil, err
	}
	return p.Bytes(), nil
}

func bodyTooLong(length, most int64) error {
	return status.Errorf(status.BodyCap, "the body is too long: it has %d bytes, and the limit is %s",
		length, limits.Bytes(most).Human())
}

// ReadJSON reads a request's body into v, a pointer to a struct: one JSON object of at most BodyBytes
// bytes. The object may have each member of the struct once and no other member, so that a misspelt
// member is never ignored. An empty body leaves v as it is. raw is the body as sent.
func (l *Bodies) ReadJSON(w *Response, r *http.Request, v any) (raw []byte, err error) {
	if t := r.Header.Get("Content-Type"); t != "" {
		if base, _, err := mime.ParseMediaType(t); err != nil || base != MediaJSON {
			return nil, status.Errorf(status.Unsupported,
				"cannot read the body: its type is %s. Send application/json", Clip(t))
		}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, status.Errorf(status.Unsupported,
			"cannot read the body: its Content-Encoding is %s. Send it plain", Clip(e))
	}
	most := int64(l.cfg.BodyBytes)
	if r.ContentLength > most {
		w.AbandonBody(r)
		return nil, bodyTooLong(r.ContentLength, most)
	}
	b := l.Open(w, r)
	defer b.Stop()
	if raw, err = io.ReadAll(&cappedReader{r: b, left: most, max: most, name: "the body"}); err != nil {
		w.AbandonBody(r)
		return nil, err
	}
	if len(raw) == 0 {
		return raw, nil
	}
	if err := unmarshalObject(raw, v); err != nil {
		return nil, status.Errorf(status.BadRequest, "cannot read the body: %w", err)
	}
	return raw, nil
}

// unmarshalObject decodes one JSON object into the struct v. The object must be UTF-8. It may
// have each member of v once, by its exact name, and no other member.
func unmarshalObject(raw []byte, v any) error {
	if jsontext.Value(raw).Kind() != '{' {
		return errors.New("it is not a JSON object")
	}
	err := json.Unmarshal(raw, v, json.RejectUnknownMembers(true))
	var wrong *json.SemanticError
	var malformed *jsontext.SyntacticError
	switch {
	case errors.As(err, &wrong) && errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("it has an unknown member %s", Clip(string(wrong.JSONPointer)))
	case errors.As(err, &wrong) && errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("member %s is a number out of range", Clip(string(wrong.JSONPointer)))
	case errors.As(err, &wrong):
		return fmt.Errorf("member %s cannot be a JSON %s", Clip(string(wrong.JSONPointer)), wrong.JSONKind)
	case errors.As(err, &malformed) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("it has the member %s twice", Clip(string(malformed.JSONPointer)))
	case errors.As(err, &malformed):
		return fmt.Errorf("it is not JSON at byte %d: %w", malformed.ByteOffset, malformed.Err)
	}
	return err
}
