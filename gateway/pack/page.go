package pack

import (
	"bytes"
	"net/http"

	"allium/gateway/exchange"
	"allium/gateway/pack/viewer"
	"allium/protocols/b3"
)

// page sends the map of a pack.
func (h *Handlers) page(w *exchange.Response, r *http.Request, m *mount, s *state) error {
	var out bytes.Buffer
	err := viewer.Page(&out, w.Frame(), viewer.Facts{
		Name: m.name, Info: s.archive.Info(), Attribution: plainText(s.archive.Info().Attribution),
		Root: s.root, Size: s.size,
	})
	if err != nil {
		return err
	}
	head := w.Header()
	head.Set("Content-Security-Policy", viewer.Policy())
	head.Set("Cache-Control", "no-cache")
	return exchange.SendTagged(w, r, exchange.ETag(b3.Sum(out.Bytes())), exchange.MediaHTML, out.Bytes())
}
