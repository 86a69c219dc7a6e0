package web

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"allium/bench/bed"
	"allium/bench/measure"
)

// The file that many clients ask for at once, and the file of the hits.
const (
	fillClients = 100
	fillSize    = 10 << 20
	fillHit     = 64 << 10
)

// fillOrigin is an https server on loopback. Every path below /big/ has the same bytes, and so has every other path.
type fillOrigin struct {
	*httptest.Server
	asked atomic.Int64
	big   []byte
	small []byte
}

func newFillOrigin() *fillOrigin {
	o := &fillOrigin{big: make([]byte, fillSize), small: make([]byte, fillHit)}
	src := rand.NewChaCha8([32]byte{3})
	_, _ = src.Read(o.big) // never fails
	_, _ = src.Read(o.small)
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked.Add(1)
		body := o.small
		if strings.HasPrefix(r.URL.Path, "/big/") {
			body = o.big
		}
		w.Header().Set("Etag", fmt.Sprintf("%q", r.URL.Path))
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body) // a client that goes away is none of ours
	}))
	o.EnableHTTP2 = true
	o.StartTLS()
	return o
}

// Fill measures many clients that ask for one file of an origin at once, and hits beside downloads by address.
func Fill(ctx context.Context, s *bed.Settings) (rows []measure.Row, err error) {
	o := newFillOrigin()
	defer o.Close()
	home := filepath.Join(s.Dir, "fillhome")
	if err := fillHome(home, o); err != nil {
		return nil, err
	}
	node, err := s.StartNode(ctx, home)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = node.Stop() }()
	asked := measure.Row{What: "100 clients, one URL: requests to the origin", Target: "1"}
	all := measure.Row{What: "100 clients have 10 MiB ÷ one + 100 stored", Unit: "×", Target: "≤ 1.5"}
	first := measure.Row{What: "100 clients: first byte ÷ the origin's", Unit: "×", Target: "≤ 1.2"}
	same := measure.Row{What: "100 clients: first byte ÷ 100 at the origin", Unit: "×"}
	slowest := measure.Row{What: "100 clients: first byte of the last", Unit: "ms"}
	for i := range s.Rounds + 1 { // the first warms both
		path := fmt.Sprintf("/big/%d", i)
		direct, err := download(ctx, o.Client(), []string{o.URL + "/big/direct"})
		if err != nil {
			return nil, err
		}
		crowd, err := download(ctx, o.Client(), slices.Repeat([]string{o.URL + "/big/direct"}, fillClients))
		if err != nil {
			return nil, err
		}
		before := o.asked.Load()
		filled, err := download(ctx, nil, slices.Repeat([]string{node.Gate + "/edge/assets/site" + path}, fillClients))
		if err != nil {
			return nil, err
		}
		requests := o.asked.Load() - before
		stored, err := download(ctx, nil, slices.Repeat([]string{node.Gate + "/edge/assets/site" + path}, fillClients))
		if err != nil {
			return nil, err
		}
		if i == 0 {
			continue
		}
		asked.Values = append(asked.Values, float64(requests))
		all.Values = append(all.Values, filled.took.Seconds()/(direct.took+stored.took).Seconds())
		first.Values = append(first.Values, filled.median().Seconds()/direct.median().Seconds())
		same.Values = append(same.Values, filled.median().Seconds()/crowd.median().Seconds())
		slowest.Values = append(slowest.Values, bed.MS(slices.Max(filled.first)))
	}
	rows = []measure.Row{asked, all, first, same, slowest}
	hit, err := benchFillHit(ctx, s, node, o)
	return append(rows, hit...), err
}

// benchFillHit measures hits beside the same object by its address.
func benchFillHit(ctx context.Context, s *bed.Settings, node *measure.Process, o *fillOrigin) ([]measure.Row, error) {
	if !bed.Has("wrk") {
		fmt.Println("hits under wrk: not measured, as they need the program wrk")
		return nil, nil
	}
	const hit = "/edge/assets/site/small"
	if _, err := download(ctx, nil, []string{node.Gate + hit}); err != nil {
		return nil, err
	}
	a, err := http.Head(node.Gate + hit) //nolint:noctx // it ends at once
	if err != nil {
		return nil, err
	}
	if err := a.Body.Close(); err != nil {
		return nil, err
	}
	address := strings.Trim(a.Header.Get("Etag"), `"`)
	speed := measure.Row{What: "a hit of 64 KiB ÷ /o/", Unit: "×", Target: "≥ 0.9"}
	cpu := measure.Row{What: "a hit of 64 KiB: CPU", Unit: "µs/request"}
	for i := range s.Rounds + 1 { // the first warms both
		ours, err := wrk(ctx, node, node.Gate+hit, "")
		if err != nil {
			return nil, err
		}
		object, err := wrk(ctx, node, node.Gate+"/o/"+address, "")
		if err != nil {
			return nil, err
		}
		if i > 0 {
			speed.Values = append(speed.Values, ours.rate/object.rate)
			cpu.Values = append(cpu.Values, ours.cpu.Seconds()*1e6)
		}
	}
	if n := o.asked.Load(); n > 1000 {
		return nil, fmt.Errorf("hits asked the origin: %d requests", n)
	}
	return []measure.Row{speed, cpu}, nil
}

// fillHome writes the configuration of a node with the source site.
func fillHome(home string, o *fillOrigin) error {
	if err := bed.Unlimited(home); err != nil {
		return err
	}
	ca := filepath.Join(home, "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		return err
	}
	config, err := os.OpenFile(filepath.Join(home, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(config, "[edge.sources.site]\nurl = %q\nprivate = true\nca_file = %q\n", o.URL+"/", ca)
	return errors.Join(err, config.Close())
}

// downloads are the times of downloads that began together.
type downloads struct {
	first []time.Duration // to the first byte of each
	took  time.Duration   // of all
}

func (d downloads) median() time.Duration {
	return slices.Sorted(slices.Values(d.first))[len(d.first)/2]
}

// download reads all URLs at once, each over a separate connection. A nil client trusts no certificate.
func download(ctx context.Context, client *http.Client, urls []string) (downloads, error) {
	d := downloads{first: make([]time.Duration, len(urls))}
	var g errgroup.Group
	g.SetLimit(len(urls))
	begun := time.Now()
	for i, url := range urls {
		g.Go(func() error {
			t := &http.Transport{}
			if client != nil {
				t.TLSClientConfig = client.Transport.(*http.Transport).TLSClientConfig.Clone()
			} else {
				t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS13}
			}
			defer t.CloseIdleConnections()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			a, err := t.RoundTrip(req)
			if err != nil {
				return err
			}
			defer a.Body.Close()
			if a.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %s", url, a.Status)
			}
			var one [1]byte
			if _, err := io.ReadFull(a.Body, one[:]); err != nil {
				return err
			}
			d.first[i] = time.Since(begun)
			_, err = io.Copy(io.Discard, a.Body)
			return err
		})
	}
	err := g.Wait()
	d.took = time.Since(begun)
	return d, err
}
