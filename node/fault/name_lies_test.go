package fault

import (
	"bytes"
	"io"
	"log/slog"
	"testing"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/api"
	"allium/protocols/delimited"
	"allium/protocols/dht"
)

// handlers keeps the handlers that are set on it.
type handlers struct {
	host.Host
	by map[protocol.ID]network.StreamHandler
}

func (h handlers) SetStreamHandler(id protocol.ID, f network.StreamHandler) { h.by[id] = f }

// exchange is a stream with a request, and then its response.
type exchange struct {
	network.Stream
	io.Reader
	io.Writer
}

func (e exchange) Read(p []byte) (int, error)  { return e.Reader.Read(p) }
func (e exchange) Write(p []byte) (int, error) { return e.Writer.Write(p) }

// framed returns a message with its length in front.
func framed(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := exchanged.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := delimited.Write(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestNameLiar: while the node lies, the record of a name is forged, and the first one as soon as
// there is a newer one. All else stays, and everything while the node is honest.
func TestNameLiar(t *testing.T) {
	f := New("", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	h := handlers{by: map[protocol.ID]network.StreamHandler{}}
	liar := f.NameLiar(h)
	served := func(request, response []byte) []byte {
		t.Helper()
		liar.SetStreamHandler(dht.ProviderID, func(s network.Stream) {
			if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, request) {
				t.Errorf("the handler reads %x, %v", got, err)
			}
			if n, err := s.Write(response); n != len(response) || err != nil {
				t.Errorf("wrote %d of %d bytes: %v", n, len(response), err)
			}
		})
		var out bytes.Buffer
		h.by[dht.ProviderID](exchange{nil, bytes.NewReader(request), &out})
		return out.Bytes()
	}
	ask := func(key string) []byte { return framed(t, nameRequest{opGetName, []byte(key)}) }
	answer := func(record string) []byte {
		return framed(t, nameAnswer{200, []nameRecord{{Envelope: []byte(record)}}, []closerPeer{{ID: []byte("near")}}})
	}
	check := func(what string, got, want []byte) {
		t.Helper()
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("honest", served(ask("k"), answer("one")), answer("one"))
	if _, err := f.Set(api.Faults{Corrupt: true}); err != nil {
		t.Fatal(err)
	}
	check("one record", served(ask("k"), answer("one")), answer("ond"))
	check("a newer one", served(ask("k"), answer("two")), answer("one"))
	check("another name", served(ask("other"), answer("two")), answer("twn"))
	check("no record", served(ask("k"), framed(t, nameAnswer{Code: 200})), framed(t, nameAnswer{Code: 200}))
	check("another operation", served(framed(t, nameRequest{2, []byte("k")}), answer("two")), answer("two"))
	check("no message", served([]byte("hello"), answer("two")), answer("two"))
	check("no answer", served(ask("k"), []byte("hello")), []byte("hello"))
	check("a long request", served(make([]byte, maxExchange+1), answer("two")), answer("two"))
	if _, err := f.Set(api.Faults{}); err != nil {
		t.Fatal(err)
	}
	check("healed", served(ask("k"), answer("two")), answer("two"))
	liar.SetStreamHandler("/other", func(s network.Stream) { _, _ = s.Write(answer("two")) })
	if _, err := f.Set(api.Faults{Corrupt: true}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	h.by["/other"](exchange{nil, bytes.NewReader(ask("k")), &out})
	check("another protocol", out.Bytes(), answer("two"))
}
