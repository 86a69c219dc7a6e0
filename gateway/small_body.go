package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"allium/protocols/admission"
	"allium/protocols/status"
)

// readSmall reads a body that is held in memory as a whole: at most most bytes
// as they come, else body_cap, and DecompressBytes as they decode to, else
// decompress_cap. A body that says it is longer is not begun.
func (g *Gateway) readSmall(r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return nil, status.Errorf(status.BodyCap, "the body has %d bytes; %s is all that it may", r.ContentLength, admission.Bytes(most).Human())
	}
	body, done, err := g.decode(r.Header, &capped{r: r.Body, left: most, most: most, name: "the body"}, int64(g.cfg.DecompressBytes))
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

// readJSON reads a body of up to BodyBytes that is one JSON value. Members that v
// has not got are refused: a misspelt one must not be ignored.
func (g *Gateway) readJSON(r *http.Request, v any) error {
	p, err := g.readSmall(r, int64(g.cfg.BodyBytes))
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(p))
	d.DisallowUnknownFields()
	err = d.Decode(v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the value")
		}
	}
	if err != nil {
		return status.Errorf(status.BadRequest, "the body cannot be read: %w", err)
	}
	return nil
}
