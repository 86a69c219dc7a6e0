package pack

import (
	"encoding/json"
	"html"
	"net/http"
	"strings"

	nethtml "golang.org/x/net/html"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/gateway/pack/tile"
	"allium/protocols/b3"
)

// tileJSON sends the description of a pack.
func (h *Handlers) tileJSON(w *exchange.Response, r *http.Request, m *mount, s *state) error {
	body, err := json.Marshal(describe(s.archive.Info(), base(w, r)+m.name, s.version))
	if err != nil {
		return err
	}
	head := w.Header()
	head.Add("Vary", "Host")
	head.Set("Cache-Control", describing(m, s))
	body = append(body, '\n')
	return exchange.SendTagged(w, r, exchange.ETag(b3.Sum(body)), exchange.MediaJSON, body)
}

// describing returns the Cache-Control of a description. It names the tiles of one state, and another pack
// may be mounted under the name at any time.
func describing(m *mount, s *state) string {
	if s.named {
		return exchange.MaxAge(m.leftTTL())
	}
	return "no-cache"
}

// base returns the URL of the packs as the client reaches them, with a slash at its end. It is a path if the
// client names no host.
func base(w *exchange.Response, r *http.Request) string {
	scheme := "http://"
	if w.From.Secure {
		scheme = "https://"
	}
	if r.Host == "" { // HTTP/1.0
		return w.Prefix + "/edge/packs/"
	}
	return scheme + r.Host + w.Prefix + "/edge/packs/"
}

// describe returns the description of a pack whose tiles lie below the URL base. Each version of it has
// tiles of other URLs, as a client that finds a changed pack below known URLs would have to ask for each
// tile again.
func describe(info *tile.Info, base, version string) api.TileJSON {
	d := api.TileJSON{
		TileJSON: "3.0.0", Scheme: "xyz",
		Tiles:     []string{base + "/{z}/{x}/{y}." + info.Type.Ext() + "?v=" + version},
		PackTexts: api.PackTexts(info.Texts),
		MinZoom:   int(info.MinZoom), MaxZoom: int(info.MaxZoom), Bounds: info.Bounds, Center: info.Center,
		VectorLayers: []json.RawMessage{}, Format: info.Type.Ext(),
	}
	// Renderers put the attribution into their pages, and its author may be anybody.
	d.Attribution = html.EscapeString(plainText(info.Attribution))
	var layers []json.RawMessage
	if json.Unmarshal(info.VectorLayers, &layers) == nil && layers != nil {
		d.VectorLayers = layers
	}
	return d
}

// plainText returns the text of an attribution without its HTML.
func plainText(attribution string) string {
	var text strings.Builder
	for z := nethtml.NewTokenizer(strings.NewReader(attribution)); ; {
		switch z.Next() {
		case nethtml.ErrorToken:
			return strings.TrimSpace(text.String())
		case nethtml.TextToken:
			text.Write(z.Text())
		}
	}
}
