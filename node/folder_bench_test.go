package node_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"allium/gateway/verified"
	"allium/node/config"
	"allium/node/local"
)

// BenchmarkFolder reads a directory of 10,000 files of 4 KiB that a node has: as get does, and in one answer of the
// gateway. "proved" is the bundle with its proofs checked by the reader, and "alone" each file by a request of its own.
func BenchmarkFolder(b *testing.B) {
	n := start(b, func(c *config.Config) { c.Gateway.Rate = 0 })
	root, want := bundleTree(b, n, 10_000)
	var size int64
	for _, p := range want {
		size += int64(len(p))
	}
	const leftOut = 3_000_000 // more than the large file has, which a bundle leaves out
	run := func(name string, read func(ctx context.Context) (io.ReadCloser, error)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				r, err := read(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				got, err := io.Copy(io.Discard, r)
				if err != nil || got < size-leftOut {
					b.Fatalf("%d bytes of %d, %v", got, size, err)
				}
				_ = r.Close()
			}
		})
	}
	run("get", func(ctx context.Context) (io.ReadCloser, error) {
		s, err := n.api.Get(ctx, root)
		return s.Body, err
	})
	for _, format := range []string{"tar", "zip", "bundle"} {
		run(format, func(ctx context.Context) (io.ReadCloser, error) {
			url := n.ID().Gateway + "/b3/" + root + "/?format=" + format
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return nil, err
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return nil, err
			}
			return resp.Body, nil
		})
	}
	old := newFront(b, n.ID().Gateway)
	old.old.Store(true)
	for name, base := range map[string]string{"proved": n.ID().Gateway, "alone": old.url} {
		g, err := verified.New(base, verified.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer g.Close()
		run(name, func(ctx context.Context) (io.ReadCloser, error) {
			s, err := local.NewGateway(g).Get(ctx, root)
			return s.Body, err
		})
	}
}
