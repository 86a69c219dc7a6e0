package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/bao"
)

// provenObjects proves every group on its way out, as the store does.
type provenObjects struct {
	root     b3.Root
	data     []byte
	outboard []byte
}

func (p *provenObjects) Open(context.Context, b3.Root, content.OpenOptions) (content.Content, error) {
	return p, nil
}
func (p *provenObjects) Memory(b3.Root) []byte { return nil }
func (p *provenObjects) Cached(b3.Root) bool   { return false }
func (p *provenObjects) Size() int64           { return int64(len(p.data)) }
func (p *provenObjects) Close() error          { return nil }

func (p *provenObjects) Copy(_ context.Context, w io.Writer, start, end int64) error {
	src := b3.FileSource(bytes.NewReader(p.data), bytes.NewReader(p.outboard), int64(len(p.data)))
	s := b3.NewReader(p.root, int64(len(p.data)), src).Section(start, end)
	defer s.Close()
	_, err := s.WriteTo(w)
	return err
}

func (p *provenObjects) Encode(_ context.Context, w io.Writer, start, end int64) error {
	src := b3.FileSource(bytes.NewReader(p.data), bytes.NewReader(p.outboard), int64(len(p.data)))
	e, err := bao.NewEncoder(b3.NewReader(p.root, int64(len(p.data)), src), b3.Range{Start: start, End: end})
	if err != nil {
		return err
	}
	_, err = e.WriteTo(w)
	return err
}

// BenchmarkObject is one GET over a kept connection, client included.
func BenchmarkObject(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			data := bytes.Repeat([]byte("allium"), size/6+1)[:size]
			var outboard bytes.Buffer
			h := b3.NewHasher(&outboard, 1)
			if _, err := h.Write(data); err != nil {
				b.Fatal(err)
			}
			root, _, err := h.Sum()
			if err != nil {
				b.Fatal(err)
			}
			proven := func(d *Deps) { d.Objects = &provenObjects{root, data, outboard.Bytes()} }
			n := startWith(b, hooks{deps: proven},
				func(c *Config, _ *server.AdminConfig) { c.Rate, c.Burst = 1e9, 1<<30 })
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet,
				n.Addrs().Gateway+"/o/"+root.String(), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				resp, err := tr.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				got, err := io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err != nil || got != int64(size) {
					b.Fatalf("%d bytes, %v", got, err)
				}
			}
		})
	}
}

// BenchmarkStream is get over the Unix socket, client included.
func BenchmarkStream(b *testing.B) {
	n := start(b)
	c := connectTo(b, n)
	data := make([]byte, 64<<20)
	n.node.get.set(func(context.Context, string) (*api.Stream, error) {
		s := fakeStream("")
		s.Body = io.NopCloser(bytes.NewReader(data))
		return s, nil
	})
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		s, err := c.Get(b.Context(), "x")
		if err != nil {
			b.Fatal(err)
		}
		got, err := io.Copy(io.Discard, s.Body)
		s.Body.Close()
		if err != nil || got != int64(len(data)) {
			b.Fatalf("%d bytes, %v", got, err)
		}
	}
}
