package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"allium/internal/limits"
	"allium/protocols/status"
)

// ReadSmall reads a body that is held in memory as a whole: at most most bytes
// as they come, else body_cap, and DecompressBytes as they decode to, else
// decompress_cap. A body that says it is longer is not begun.
func (l *Bodies) ReadSmall(r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return nil, status.Errorf(status.BodyCap, "the body has %d bytes; %s is all that it may", r.ContentLength, limits.Bytes(most).Human())
	}
	body, done, err := l.Decode(r.Header, &capped{r: r.Body, left: most, most: most, name: "the body"}, int64(l.cfg.DecompressBytes))
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

// ReadJSON reads a request's body: one JSON object of at most BodyBytes that has
// the members of T, a struct, at most once each and no others, because a
// misspelt one must not be ignored. No body is the zero value.
func ReadJSON[T any](l *Bodies, w *Response, r *http.Request) (raw []byte, v T, err error) {
	if t := r.Header.Get("Content-Type"); t != "" {
		if base, _, err := mime.ParseMediaType(t); err != nil || base != MediaJSON {
			return nil, v, status.Errorf(status.Unsupported, "the body is %s; send application/json", Clip(t))
		}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, v, status.Errorf(status.Unsupported, "the body is encoded with %s; send it as it is", Clip(e))
	}
	most := int64(l.cfg.BodyBytes)
	if r.ContentLength > most {
		w.LeaveBody(r)
		return nil, v, status.Errorf(status.BodyCap, "the body has %d bytes; at most %d are read", r.ContentLength, most)
	}
	b := l.Open(w, r)
	defer b.End()
	if raw, err = io.ReadAll(&capped{r: b, left: most, most: most, name: "the body"}); err != nil {
		w.LeaveBody(r)
		return nil, v, err
	}
	if len(raw) == 0 {
		return raw, v, nil
	}
	if err := unmarshalObject(raw, &v); err != nil {
		return nil, v, status.Errorf(status.BadRequest, "the body cannot be read: %w", err)
	}
	return raw, v, nil
}

// unmarshalObject reads one JSON object that is UTF-8 and has the members of v, a
// struct, at most once each, by their exact names, and no others.
func unmarshalObject(raw []byte, v any) error {
	if jsontext.Value(raw).Kind() != '{' {
		return errors.New("it is no object")
	}
	err := json.Unmarshal(raw, v, json.RejectUnknownMembers(true))
	var wrong *json.SemanticError
	var malformed *jsontext.SyntacticError
	switch {
	case errors.As(err, &wrong) && errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("member %s is not known here", Clip(string(wrong.JSONPointer)))
	case errors.As(err, &wrong):
		return fmt.Errorf("member %s cannot be a JSON %s", Clip(string(wrong.JSONPointer)), wrong.JSONKind)
	case errors.As(err, &malformed) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("member %s is there twice", Clip(string(malformed.JSONPointer)))
	case errors.As(err, &malformed):
		return fmt.Errorf("it is not JSON at byte %d: %w", malformed.ByteOffset, malformed.Err)
	}
	return err
}
